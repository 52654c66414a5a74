-- Those of one gate and rank. OR FAIL: what a failed call has written is undone as a whole.
INSERT OR FAIL INTO shown (gate, rank, seq, again, heir) SELECT ?2, ?3, value, ?4, 1 FROM rarray(?1)
