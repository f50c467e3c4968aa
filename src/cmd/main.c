/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main: the program's entry. Everything is in the library, so that tests can call it.
 */
#include <signal.h>
#include "cmd/cmd.h"
#include "s3/s3.h"

int main(int argc, char **argv)
{
	int status;

	/*
	 * A file that may not grow (ulimit -f, LimitFSIZE=) is a write that fails, like one on a full disk.
	 */
	signal(SIGXFSZ, SIG_IGN);
	status = cmd_run(argc, argv);
	s3_shared_done();
	return status;
}
