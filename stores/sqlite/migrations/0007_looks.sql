-- A lease is taken back in two looks: windlass_core::lease. The first leaves its moment here. A program of before
-- can still work beside this one; it takes back at the first look until it is started anew.
ALTER TABLE leases ADD COLUMN marked_ms INTEGER;
