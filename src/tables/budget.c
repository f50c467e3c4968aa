/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes of files tables are built of at once, since building takes memory by the size of the file. A
 * file that is larger than the whole budget is alone.
 */
#include "tables/internal.h"

bool budget_take(struct build *b, uint64_t size)
{
	struct tables *t = b->tables;
	bool fits;

	pthread_mutex_lock(&t->lock);
	fits = !t->n_building || t->building + size <= t->opts.building_size;
	if (fits) {
		t->n_building++;
		t->building += size;
	}
	b->parked = !fits;
	pthread_mutex_unlock(&t->lock);
	return fits;
}

void budget_give(struct tables *t, uint64_t size)
{
	pthread_mutex_lock(&t->lock);
	t->n_building--;
	t->building -= size;
	for (struct build *b = t->first_build; b; b = b->next)
		if (b->parked) {
			b->parked = false;
			task_kick(&b->task);
		}
	pthread_mutex_unlock(&t->lock);
}
