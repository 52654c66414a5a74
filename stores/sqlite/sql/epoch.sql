-- name: load
SELECT number, instance, floor, began_ms, first_seq, lossy, pause_max_ms, file_dev, file_ino, file_born_ns, file_boot
FROM epoch WHERE one = 1

-- name: save
INSERT OR REPLACE INTO epoch (
  one, number, instance, floor, began_ms, first_seq, lossy, pause_max_ms, file_dev, file_ino, file_born_ns, file_boot
) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
