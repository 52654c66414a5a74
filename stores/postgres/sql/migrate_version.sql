SELECT max(version) FROM windlass.migrations
