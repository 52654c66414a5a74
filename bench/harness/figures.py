"""From samples to medians and spreads, and from these to the ratios that were promised."""

from statistics import median

from .contestants import CONTESTANTS

ROLES = {one.name: (one.role, one.server) for one in CONTESTANTS}


# A run during which others used more than this many cores is disturbed.
OTHERS_MAX = 0.25


class Figures:
    def __init__(self, samples):
        ran = [one for one in samples if "failed" not in one]
        self.failed = [one for one in samples if "failed" in one]
        clean = {_what(one) for one in ran if not _disturbed(one)}
        # Disturbed runs count only where there is no other.
        self.kept = [one for one in ran if not _disturbed(one) or
                     (_what(one) not in clean and not one.get("dropped"))]
        self.repeated = len(ran) - len(self.kept)
        self.disturbed = sum(1 for one in self.kept if _disturbed(one))

    def of(self, contestant, measure, field="per_second"):
        """Median, least, most and count; nothing when it was not measured."""
        values = [one[field] for one in self.kept
                  if one["contestant"] == contestant and one["measure"] == measure and field in one]
        return (median(values), min(values), max(values), len(values)) if values else None

    def median(self, contestant, measure, field="per_second"):
        found = self.of(contestant, measure, field)
        return found and found[0]

    def cpu(self, contestant, measure="drain"):
        client = self.median(contestant, measure, "cpu_client_us")
        server = self.median(contestant, measure, "cpu_server_us")
        return None if client is None else client + server

    def best(self, server, role, measure, field="per_second", least=False):
        """The best of a role on a server: its name and its median."""
        names = [name for name, (is_role, is_server) in ROLES.items() if (is_role, is_server) == (role, server)]
        # What survives no power cut is shown, but is nobody's measure.
        names = [name for name in names if not name.endswith("-off")]
        value = (lambda name: self.cpu(name, measure)) if field == "cpu" else (
            lambda name: self.median(name, measure, field))
        found = [(value(name), name) for name in names if value(name) is not None]
        if not found:
            return None
        best = min(found) if least else max(found)
        return best[1], best[0]

    def shaky(self, contestant, measure):
        """Whether all runs of it were disturbed."""
        return any(_disturbed(one) for one in self.kept if _what(one) == (contestant, measure))

    def measures(self):
        found = []
        for one in self.kept:
            if one["measure"] not in found:
                found.append(one["measure"])
        return found


def _what(sample):
    return sample["contestant"], sample["measure"]


def _disturbed(sample):
    return sample.get("others", 0) > OTHERS_MAX
