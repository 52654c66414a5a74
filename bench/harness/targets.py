"""The targets of the project, each as a ratio within one run, and whether it was met."""


def targets(figures):
    """Rows of (what, target, measured, met); met is None where something was not measured."""
    rows = []
    postgres, sqlite = ("windlass", "postgres"), ("windlass-sqlite", "sqlite")
    for what, (us, server), measure, peer, limit in [
        ("Postgres, drain by one process", postgres, "drain", 1.5, 0.7),
        ("Postgres, enqueue one at a time by 16 producers", postgres, "enqueue one", 2.0, 1.0),
        ("Postgres, enqueue in batches of 1,000", postgres, "enqueue batch", 1.5, 0.7),
        ("SQLite, drain", sqlite, "drain", 5.0, 0.5),
        ("SQLite, enqueue one at a time by 16 producers", sqlite, "enqueue one", 5.0, None),
    ]:
        for role, word, least in (("peer", "best peer", peer), ("limit", "limit", limit)):
            if least:
                other = figures.best(server, role, measure)
                row = _ratio(f"{what}, against the {word}", figures.median(us, measure), other, least)
                rows.append(_marked(figures, row, us, other, measure))
    copied = figures.median("limit-copy", "enqueue batch")
    rows.append(_ratio("Postgres, enqueue in batches of 1,000, against COPY", figures.median("windlass", "enqueue batch"),
                       ("limit-copy", copied), 0.7))
    rows += _pickup(figures)
    rows.append(_below("Postgres, CPU µs per drained job, client and server", figures.cpu("windlass"),
                       figures.best("postgres", "peer", "drain", "cpu", least=True)))
    for us, server in (postgres, sqlite):
        rows += _costs(figures, us, server)
    for what, us, measure, least in (
        ("MongoDB, drain, against the best Agenda", "windlass-mongo", "drain", 20.0),
        ("MongoDB, enqueue in batches of 100, against the best Agenda", "windlass-mongo", "enqueue batch", 20.0),
        ("Agenda's own collection, drain, against the best Agenda", "windlass-rows", "drain", 5.0),
    ):
        rows.append(_ratio(what, figures.median(us, measure), figures.best("mongo", "peer", measure), least))
    two = figures.median("windlass", "drain by two")
    rows.append(_ratio("Postgres, drain by two processes against one", two,
                       ("one process", figures.median("windlass", "drain")), 1.0))
    return rows


def _pickup(figures):
    rows = []
    measure = "pickup when idle"
    for field, word in (("p50_ms", "p50"), ("p99_ms", "p99")):
        other = figures.best("postgres", "peer", measure, field, least=True)
        row = _below(f"Postgres, idle pickup {word}, ms", figures.median("windlass", measure, field), other)
        rows.append(_marked(figures, row, "windlass", other, measure))
    for what, us, most in (("Postgres", "windlass", 3.0), ("SQLite", "windlass-sqlite", 1.0)):
        ours = figures.median(us, measure, "p50_ms")
        met = None if ours is None else ours < most
        row = (f"{what}, idle pickup p50", f"under {most:g} ms", _number(ours, " ms"), met)
        rows.append(_marked(figures, row, us, None, measure))
    return rows


def _costs(figures, us, server):
    name = {"postgres": "Postgres", "sqlite": "SQLite"}[server]
    plain = figures.median(us, "drain")
    rows = [
        _ratio(f"{name}, drain at a backlog of 1,000,000 against 10,000", figures.median(us, "drain at 1,000,000"),
               ("10,000", figures.median(us, "drain at 10,000")), 0.9),
    ]
    rows.append(_ratio(f"{name}, drain with 5,000,000 finished jobs against none",
                       figures.median(us, "drain with 5,000,000 finished"), ("none", plain), 0.9))
    for what, measure, least in (("a queue limit", "drain with a limit", 0.9), ("keys", "drain with keys", 0.8),
                                 ("a budget", "drain with a budget", 0.8)):
        row = _ratio(f"{name}, drain with {what} against plain", figures.median(us, measure), ("plain", plain), least)
        rows.append(_marked(figures, row, us, None, measure))
    return rows


def _marked(figures, row, us, other, measure):
    """A tilde before what rests on runs that were all disturbed."""
    what, target, measured, met = row
    shaky = met is not None and (figures.shaky(us, measure) or other and figures.shaky(other[0], measure))
    return (what, target, f"~ {measured}" if shaky else measured, met)


def _ratio(what, ours, other, least):
    target = f"at least {least:g} times"
    if ours is None or other is None or other[1] is None:
        return (what, target, "not measured", None)
    ratio = ours / other[1]
    return (what, target, f"{ratio:.2f} times ({ours:,.0f} against {other[1]:,.0f} of {other[0]})", ratio >= least)


def _below(what, ours, other):
    if ours is None or other is None:
        return (what, "below every peer", "not measured", None)
    return (what, "below every peer", f"{ours:.2f} against {other[1]:.2f} of {other[0]}", ours < other[1])


def _number(value, unit):
    return "not measured" if value is None else f"{value:.2f}{unit}"
