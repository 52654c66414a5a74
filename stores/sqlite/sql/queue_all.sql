SELECT name, policy, paused FROM queues ORDER BY name
