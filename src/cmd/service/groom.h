/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that grooms a profile store at low priority (profilestore_groom()).
 */
#pragma once

#include "profilestore/profilestore.h"

struct groomer;
int groomer_start(struct profilestore *profiles, struct groomer **ret, struct err *err);
void groomer_stop(struct groomer *g); /* waits for the running step; takes NULL */
