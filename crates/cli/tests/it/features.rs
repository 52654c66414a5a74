//! The tests are built with the features that users get. A dev-dependency can
//! switch on a feature of a crate that the program uses as well, for the whole
//! workspace, and what is tested then is not what is shipped.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// A package, features that only one of two builds has, and why.
type Allowed = (&'static str, &'static [&'static str], &'static str);

/// Features that only the build of the tests has, and why that does no harm.
const ALLOWED: &[Allowed] = &[
    (
        "num-traits",
        &["std"],
        "proptest asks for it; with std, numbers have the same functions of the same names",
    ),
    ("windlass", &["testing"], "a module for tests of users' own; nothing else looks at it"),
    ("windlass-engine", &["testing"], "a module for tests of users' own; nothing else looks at it"),
    ("tokio", &["test-util"], "a clock that can be stopped; it runs as ever unless a test stops it"),
];

/// What the tests and the program with everything have beside the usual program, and why that does no harm:
/// the driver of MongoDB asks for it.
const BY_THE_DRIVER: &[Allowed] = &[
    ("derive_more", &["display", "from"], "derives that nobody else uses"),
    ("futures-io", &["default"], "its default is std, which both have"),
    ("rustls", &["log", "logging"], "it says what it does, to a log that nobody listens to"),
    ("sha1", &["alloc", "default", "oid"], "the number by which signatures name it"),
    (
        "simdutf8",
        &["default", "std"],
        "with std it chooses its instructions when it runs; the answers are the same",
    ),
    ("tokio-rustls", &["logging"], "as rustls"),
    ("tokio-util", &["compat", "futures-io", "futures-util", "rt"], "types that nobody else uses"),
    ("uuid", &["rng", "v4"], "ids by chance, which we make by ourselves"),
];

/// Packages and their features, by name and version.
type Features = BTreeMap<String, BTreeSet<String>>;

/// What `cargo tree` says is built with these arguments. Programs that run at
/// build time are not part of what is shipped and have features of their own.
fn features(args: &[&str]) -> Features {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix=none", "--format={p}|{f}", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut all = Features::new();
    for line in String::from_utf8(output.stdout).unwrap().lines().filter(|line| !line.is_empty()) {
        let (package, features) = line.trim_end_matches(" (*)").split_once('|').unwrap();
        let package: Vec<&str> = package.split(' ').take(2).collect();
        let features = features.split(',').filter(|feature| !feature.is_empty()).map(str::to_owned);
        all.entry(package.join(" ")).or_default().extend(features);
    }
    all
}

/// What is in `tests` and not in `release` for each package of the release, or the other way round.
fn differences(release: &Features, tests: &Features, allowed: &[Allowed]) -> Vec<String> {
    let mut found = Vec::new();
    for (package, shipped) in release {
        let Some(tested) = tests.get(package) else {
            found.push(format!("{package} is not in the build of the tests"));
            continue;
        };
        let name = package.split(' ').next().unwrap_or_default();
        let allowed: Vec<&str> =
            allowed.iter().filter(|(of, ..)| *of == name).flat_map(|(_, list, _)| *list).copied().collect();
        let more = tested.difference(shipped).filter(|feature| !allowed.contains(&feature.as_str()));
        found.extend(more.map(|feature| format!("only the tests have {package} with {feature}")));
        let less = shipped.difference(tested);
        found.extend(less.map(|feature| format!("only the release has {package} with {feature}")));
    }
    found
}

/// What a release has: the default member, without dev-dependencies.
fn release(more: &[&str]) -> Features {
    features(&[&["--package=windlass-cli", "--edges=normal,no-proc-macro"], more].concat())
}

fn check(release: &Features, tests: &Features, allowed: &[Allowed]) {
    assert!(release.len() > 100 && release.keys().any(|package| package.starts_with("flate2 ")));
    let found = differences(release, tests, allowed);
    assert!(
        found.is_empty(),
        "{}\nGive both builds the same features (Cargo.toml), or say in this file why it does no harm",
        found.join("\n")
    );
    for (name, features, _) in allowed {
        let (package, shipped) =
            release.iter().find(|(package, _)| package.starts_with(&format!("{name} "))).unwrap();
        for feature in *features {
            let differs = tests[package].contains(*feature) && !shipped.contains(*feature);
            assert!(differs, "{name} with {feature} is no difference any more: take it out of this file");
        }
    }
}

/// Both programs that people have, as `windlass_testkit::binary` builds them.
#[test]
fn the_tests_have_the_features_of_the_release() {
    let tests = features(&["--workspace", "--edges=normal,dev,no-proc-macro"]);
    let mut full = release(&["--features=listener"]);
    // What was asked for; what it brings is compared.
    for features in full.values_mut() {
        features.retain(|feature| feature != "listener" && feature != "mongo");
    }
    check(&full, &tests, ALLOWED);
    check(&release(&[]), &tests, &[ALLOWED, BY_THE_DRIVER].concat());
}

/// Nobody waits for the driver of MongoDB who did not ask for it.
#[test]
fn the_usual_program_has_no_driver_of_mongodb() {
    for release in [release(&[]), release(&["--no-default-features"])] {
        let found: Vec<&String> = release
            .keys()
            .filter(|package| {
                ["mongodb ", "bson ", "windlass-mongo ", "windlass-listener "]
                    .iter()
                    .any(|name| package.starts_with(name))
            })
            .collect();
        assert!(found.is_empty(), "{found:?}");
    }
}

/// The smallest program: the engine with SQLite, and neither a server nor anything to reach other machines' databases with.
#[test]
fn without_default_features_there_is_sqlite_alone() {
    let release = release(&["--no-default-features"]);
    let ours: Vec<&str> = release
        .keys()
        .filter_map(|package| package.split(' ').next())
        .filter(|name| name.starts_with("windlass"))
        .collect();
    assert_eq!(
        ours,
        [
            "windlass",
            "windlass-app",
            "windlass-cli",
            "windlass-core",
            "windlass-engine",
            "windlass-listen",
            "windlass-report",
            "windlass-sqlite"
        ]
    );
    // Nor what takes long to build for something that few need.
    let heavy = ["ratatui ", "regex", "ring ", "rustls ", "tokio-postgres "];
    let found = release.keys().filter(|package| heavy.iter().any(|name| package.starts_with(name)));
    assert_eq!(found.collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Every crate of ours that the demo names is there when it is built without the apps, which bring most of them.
#[test]
fn the_demo_alone_has_all_that_it_names() {
    let release = release(&["--no-default-features", "--features=demo"]);
    let built = |name: &str| release.keys().any(|package| package.starts_with(&format!("{name} ")));
    let mut named = BTreeSet::new();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let paths =
                text.split("::").filter_map(|before| before.rsplit(|c: char| !is_of_a_name(c)).next());
            named.extend(
                paths.filter(|name| name.starts_with("windlass_")).map(|name| name.replace('_', "-")),
            );
        }
    }
    assert!(named.contains("windlass-engine") && named.contains("windlass-standins"), "{named:?}");
    let missing: Vec<&String> = named.iter().filter(|name| !built(name)).collect();
    assert!(missing.is_empty(), "the feature `demo` switches on nothing that brings {missing:?}");
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[test]
fn differences_are_seen() {
    let of = |package: &str, features: &[&str]| {
        Features::from([(package.to_owned(), features.iter().map(|feature| (*feature).to_owned()).collect())])
    };
    let same = of("flate2 v1", &["miniz"]);
    assert!(differences(&same, &same, ALLOWED).is_empty());
    let switched = differences(&same, &of("flate2 v1", &["miniz", "zlib-rs"]), ALLOWED);
    assert_eq!(switched, ["only the tests have flate2 v1 with zlib-rs"]);
    assert_eq!(
        differences(&same, &of("flate2 v1", &[]), ALLOWED),
        ["only the release has flate2 v1 with miniz"]
    );
    assert_eq!(
        differences(&same, &of("flate2 v2", &["miniz"]), ALLOWED),
        ["flate2 v1 is not in the build of the tests"]
    );
    assert!(differences(&of("tokio v1", &[]), &of("tokio v1", &["test-util"]), ALLOWED).is_empty());
}
