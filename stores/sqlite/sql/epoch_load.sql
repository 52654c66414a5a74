SELECT number, instance, floor, began_ms, first_seq, lossy, pause_max_ms, file_dev, file_ino, file_born_ns, file_boot
FROM epoch WHERE one = 1
