-- Jobs that stand beside each other in the order of acceptance, as those of a claim often do.
INSERT OR FAIL INTO past (seq, state, fence, attempt, started_ms, ended_ms, worker)
SELECT seq, 2, fence, attempt, started_ms, ?3, worker FROM leases WHERE seq BETWEEN ?1 AND ?2
