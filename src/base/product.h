/* The only place where the product's name stands in the source. */
#pragma once

#define PRODUCT "carrel"
#define PRODUCT_NAME "Carrel" /* for people */
#define PRODUCT_VERSION "0.1.0"
#define DEFAULT_CONF "/etc/" PRODUCT "/" PRODUCT ".conf"
/* Of the state directory: a newer one is not touched. */
#define STATE_FORMAT 1
