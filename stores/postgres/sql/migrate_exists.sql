SELECT to_regclass('windlass.migrations') IS NOT NULL
