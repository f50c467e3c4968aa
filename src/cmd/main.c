/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main: the program's entry. Everything is in the library, so that tests can call it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include "cmd/cmd.h"
#include "s3/s3.h"

/*
 * The first file that is opened would get the number of a standard stream that is closed (">&-"), and with it the texts for
 * that stream: a token, in a lock file. Instead reading and writing fail, as of a closed one.
 */
static void occupy_closed_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", fd ? O_RDONLY : O_WRONLY);
}

int main(int argc, char **argv)
{
	int status;

	occupy_closed_streams();
	/*
	 * A file that may not grow (ulimit -f, LimitFSIZE=) is a write that fails, like one on a full disk.
	 */
	signal(SIGXFSZ, SIG_IGN);
	status = cmd_run(argc, argv);
	s3_shared_done();
	return status;
}
