/* `drive` inside of a sandbox: the same program as `sudo`, by another name. */
#pragma once

int drive_main(int argc, char **argv);
