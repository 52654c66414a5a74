//! Real notes: spoken by espeak-ng, packed as WhatsApp packs them.

use std::path::PathBuf;
use std::process::Command;

use windlass_testkit::needs::can_run;

use crate::scene::Scene;

/// What nurses say, in their languages. The words are made up.
const NOTES: [(&str, &str); 4] = [
    ("de", "Blutdruck hundertdreißig zu achtzig, Verband am linken Bein gewechselt, Stimmung gut."),
    ("en", "Blood pressure one thirty over eighty, dressing on the left leg changed, in good spirits."),
    ("tr", "Tansiyon on üçe sekiz, sol bacaktaki pansuman değiştirildi, morali iyi."),
    ("ar", "ضغط الدم جيد والمريضة بخير"),
];

/// A note as OGG/Opus. Made once for each text, and kept beside the other temporary files.
fn note(language: &str, text: &str) -> Vec<u8> {
    let folder = std::env::temp_dir().join("windlass-nurse-tour-notes");
    std::fs::create_dir_all(&folder).unwrap();
    let kept = folder.join(format!("{language}-{}.ogg", text.len()));
    if let Ok(bytes) = std::fs::read(&kept) {
        return bytes;
    }
    let scratch = tempfile::tempdir_in(&folder).unwrap();
    let path = |name: &str| -> PathBuf { scratch.path().join(name) };
    let run = |program: &mut Command| {
        let output = program.output().unwrap();
        assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new("espeak-ng").args(["-v", language, "-w"]).arg(path("note.wav")).arg(text));
    run(Command::new("opusenc")
        .args(["--quiet", "--bitrate", "24"])
        .arg(path("note.wav"))
        .arg(path("note.ogg")));
    // Renamed, so that another test never finds half of it.
    std::fs::rename(path("note.ogg"), &kept).unwrap();
    std::fs::read(kept).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_notes_in_four_languages() {
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !can_run(there("espeak-ng") && there("opusenc"), "espeak-ng and opus-tools, to speak notes") {
        return;
    }
    let scene = Scene::new().await;
    let mut notes = Vec::new();
    for (language, text) in NOTES {
        let (sid, bytes) = (format!("SM{language}"), note(language, text));
        assert!(bytes.starts_with(b"OggS") && bytes.windows(8).any(|part| part == b"OpusHead"));
        scene.message(&sid).await;
        scene.twilio.put(&format!("ME{sid}"), "audio/ogg; codecs=opus", bytes.clone());
        notes.push((sid, bytes));
    }
    scene.drain().await;
    for (sid, bytes) in &notes {
        scene.is(sid, "processing_status", "DONE").await;
        let kept =
            std::fs::read(scene.folder.path().join(format!("audio/audio/agency-1/{sid}.ogg"))).unwrap();
        assert_eq!(kept.len(), bytes.len());
        assert!(kept == *bytes, "the archive has exactly what Twilio had");
        // The stand-in says how many bytes it heard.
        let heard = scene.of(sid, "transcript_text").await.unwrap();
        assert!(heard.contains(&format!("A note of {} bytes", bytes.len())), "{heard}");
    }
    assert_eq!(scene.documents().await, 4);
}
