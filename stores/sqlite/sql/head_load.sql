SELECT boot_id, offset_ms, seen_ms, next_seq, next_event, queues_rev, next_rev, commits, epoch_rev FROM head WHERE one = 1
