// SPDX-License-Identifier: Apache-2.0
// The view "Server": status, search, and how to use the server.
import { startAddress, followAddress } from "./address.js";
import { showFailures } from "./failures.js";
import { showIndexed, showRequests } from "./figures.js";
import { showBucket } from "./bucket.js";
import { showOthers } from "./others.js";
import { showScan } from "./scan.js";
import { followSearch, noteStatus, startSearch } from "./search.js";
import { showSenders } from "./senders.js";
import { showStore } from "./store.js";
import { showTargets } from "./targets.js";
import { showUse } from "./use.js";

export function showStatus(status) {
	noteStatus(status);
	showScan(status);
	showIndexed(status);
	showRequests(status);
	showBucket(status);
	showOthers(status);
	showStore(status);
	showFailures(status);
	showSenders();
	showTargets();
}

export function startServer() {
	showUse();
	startSearch();
	startAddress();
}

export function showServer() {
	followSearch();
	followAddress();
}
