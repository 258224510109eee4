/* What the parts of a spec that are JSON may look like. */
#pragma once

#include <jansson.h>

#include "base/err.h"

int check_env(const json_t *v, struct err *e) MUST_CHECK;
int check_labels(const json_t *v, struct err *e) MUST_CHECK;
int check_ports(const json_t *v, struct err *e) MUST_CHECK;
int check_start(const json_t *v, struct err *e) MUST_CHECK;
int check_volumes(const json_t *v, struct err *e) MUST_CHECK;
int check_drive(const json_t *v, struct err *e) MUST_CHECK;
int check_allow(const json_t *v, struct err *e) MUST_CHECK;
int check_rules(const json_t *v, struct err *e) MUST_CHECK;
int check_late_rules(const json_t *v, struct err *e) MUST_CHECK;
int check_secrets(const json_t *v, struct err *e) MUST_CHECK;
int check_canaries(const json_t *v, struct err *e) MUST_CHECK;
int check_client(const json_t *v, struct err *e) MUST_CHECK;
int check_files(const json_t *v, struct err *e) MUST_CHECK;
