SELECT policy, paused FROM queues WHERE name = ?1
