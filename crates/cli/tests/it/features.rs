//! The tests are built with the features that users get. A dev-dependency can
//! switch on a feature of a crate that the program uses as well, for the whole
//! workspace, and what is tested then is not what is shipped.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Features that only the build of the tests has, and why that does no harm.
const ALLOWED: &[(&str, &[&str], &str)] = &[
    (
        "num-traits",
        &["std"],
        "proptest asks for it; with std, numbers have the same functions of the same names",
    ),
    ("windlass", &["testing"], "a module for tests of users' own; nothing else looks at it"),
    ("windlass-engine", &["testing"], "a module for tests of users' own; nothing else looks at it"),
    ("tokio", &["test-util"], "a clock that can be stopped; it runs as ever unless a test stops it"),
    (
        "zip",
        &["deflate", "deflate-flate2-zlib-rs", "deflate-zopfli"],
        "the stand-ins write workbooks; reading is by flate2 with zlib-rs in both",
    ),
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
fn differences(release: &Features, tests: &Features) -> Vec<String> {
    let mut found = Vec::new();
    for (package, shipped) in release {
        let Some(tested) = tests.get(package) else {
            found.push(format!("{package} is not in the build of the tests"));
            continue;
        };
        let name = package.split(' ').next().unwrap_or_default();
        let allowed =
            ALLOWED.iter().find(|(allowed, ..)| *allowed == name).map_or(&[][..], |(_, list, _)| list);
        let more = tested.difference(shipped).filter(|feature| !allowed.contains(&feature.as_str()));
        found.extend(more.map(|feature| format!("only the tests have {package} with {feature}")));
        let less = shipped.difference(tested);
        found.extend(less.map(|feature| format!("only the release has {package} with {feature}")));
    }
    found
}

#[test]
fn the_tests_have_the_features_of_the_release() {
    // `cargo build --release` builds the default member, without dev-dependencies.
    let release = features(&["--package=windlass-cli", "--edges=normal,no-proc-macro"]);
    let tests = features(&["--workspace", "--edges=normal,dev,no-proc-macro"]);
    assert!(release.len() > 100 && release.keys().any(|package| package.starts_with("flate2 ")));
    let found = differences(&release, &tests);
    assert!(
        found.is_empty(),
        "{}\nGive both builds the same features (Cargo.toml), or say in ALLOWED why it does no harm",
        found.join("\n")
    );
    for (name, features, _) in ALLOWED {
        let (package, shipped) =
            release.iter().find(|(package, _)| package.starts_with(&format!("{name} "))).unwrap();
        for feature in *features {
            let differs = tests[package].contains(*feature) && !shipped.contains(*feature);
            assert!(differs, "{name} with {feature} is no difference any more: take it out of ALLOWED");
        }
    }
}

#[test]
fn differences_are_seen() {
    let of = |package: &str, features: &[&str]| {
        Features::from([(package.to_owned(), features.iter().map(|feature| (*feature).to_owned()).collect())])
    };
    let same = of("flate2 v1", &["miniz"]);
    assert!(differences(&same, &same).is_empty());
    let switched = differences(&same, &of("flate2 v1", &["miniz", "zlib-rs"]));
    assert_eq!(switched, ["only the tests have flate2 v1 with zlib-rs"]);
    assert_eq!(differences(&same, &of("flate2 v1", &[])), ["only the release has flate2 v1 with miniz"]);
    assert_eq!(
        differences(&same, &of("flate2 v2", &["miniz"])),
        ["flate2 v1 is not in the build of the tests"]
    );
    assert!(differences(&of("tokio v1", &[]), &of("tokio v1", &["test-util"])).is_empty());
}
