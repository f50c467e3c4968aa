/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a command by SIGINT or SIGTERM: a flag that its loops read, so that it cleans up and reports how
 * far it came.
 */
#include <signal.h>
#include "cmd/internal.h"

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	stopped = sig;
}

void signals_catch(void)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART };

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
}

bool signals_stopped(void)
{
	return stopped;
}
