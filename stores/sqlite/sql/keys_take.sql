-- OR FAIL: what a failed call has written is undone as a whole.
INSERT OR FAIL INTO keys_taken (slot, seq, gate, rank, warned)
SELECT slot, seq, gate_number, rank, 0 FROM rarray(?1) AS claimed CROSS JOIN jobs ON jobs.seq = claimed.value
