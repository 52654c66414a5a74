//! What the table of messages looks like, for the store that works it.

use windlass_app::mapping::{Assign, Beside, CoolDowns, Mapping, Moments, Output, Stage, StepColumn, Words};
use windlass_engine::core::id::{BudgetName, Kind, QueueName, StepName};

use crate::schema::{DOCUMENTS, Types};
use crate::settings::Worker;

/// The kind of the jobs that messages are.
pub const KIND: &str = "voice-message";
/// Their queue.
pub const QUEUE: &str = "nurse-tour";
/// The channel on which new messages are announced.
pub const CHANNEL: &str = "nurse_tour";
/// The table of messages.
pub const MESSAGES: &str = "whatsapp_inbound_messages";
/// The function of the database that makes moments of text.
pub const MOMENT: &str = "nurse_tour_moment";
/// What the reason of a message begins with that only a person can help.
pub const NEEDS_HUMAN: &str = "needs_human";
/// After so many crashes without a stage in between a message is failed.
pub const CRASHES_MAX: u32 = 3;

/// The stages after `RECEIVED`, each with its step.
pub const STAGES: [(&str, &str); 4] = [
    ("audio", "AUDIO_STORED"),
    ("transcript", "TRANSCRIBED"),
    ("analysis", "ANALYZED"),
    ("document", "DOC_CREATED"),
];

/// The budgets, one for each provider: while one cools down nothing is claimed.
pub const PROVIDERS: [&str; 3] = ["twilio", "openai", "objects"];

/// The mapping, for a table whose times are of these types.
pub fn mapping(worker: &Worker, types: &Types) -> Mapping {
    let column = str::to_owned;
    Mapping {
        table: column(MESSAGES),
        kind: Kind::new(KIND).expect("a plain word"),
        queue: QueueName::new(QUEUE).expect("a plain word"),
        id: column("message_sid"),
        payload: ["message_sid", "from_number", "agency_id", "media_url", "received_at", "patient_id"]
            .map(column)
            .into(),
        status: column("processing_status"),
        words: words(),
        owner: column("locked_by"),
        locked_until: column("locked_until"),
        next_attempt: column("next_attempt_at"),
        tries: column("retry_count"),
        // As the seed counts: a message that needed no second try has 0.
        counts_failures: true,
        fence: Some(column("fence")),
        request: Some(column("claim_id")),
        crashes: Some(column("crash_count")),
        stage: Some(Stage { column: column("current_stage"), steps: steps(types) }),
        error: Some(column("failed_reason")),
        predicate: Some(column("t.message_type = 'voice'")),
        order: Some(column("received_at")),
        moments: Some(Moments { function: column(MOMENT), in_order: true }),
        tries_max: worker.max_retries,
        crashes_max: CRASHES_MAX,
        ladder: worker.ladder.clone(),
        lease_ms: u32::try_from(worker.lock.as_millis()).unwrap_or(u32::MAX),
        release_ms: u64::try_from(worker.requeue.as_millis()).unwrap_or(u64::MAX),
        beside: beside(types),
        cool_downs: Some(CoolDowns {
            table: column("nurse_tour_cool_downs"),
            budgets: PROVIDERS.map(|name| BudgetName::new(name).expect("a plain word")).into(),
        }),
        channel: Some(column(CHANNEL)),
    }
}

fn words() -> Words {
    Words {
        ready: vec!["READY".into(), "RETRY".into()],
        retry: "RETRY".into(),
        running: "PROCESSING".into(),
        done: "DONE".into(),
        failed: "FAILED".into(),
        failed_as: vec![(NEEDS_HUMAN.into(), "TRIAGE".into())],
        canceled: None,
    }
}

fn steps(types: &Types) -> Vec<StepColumn> {
    let audit = include_str!("../sql/audit_stage.sql");
    let document = document(types);
    STAGES
        .map(|(name, word)| {
            let mut carried = vec![audit.replace("{to}", &format!("'{word}'"))];
            if name == "document" {
                carried.push(document.clone());
            }
            let output = Output::Fields(fields(name));
            StepColumn {
                name: StepName::new(name).expect("a plain word"),
                word: word.into(),
                output,
                carried,
            }
        })
        .into()
}

/// The statement that makes the document, each value in the type of its column.
fn document(types: &Types) -> String {
    let may_be_missing =
        |column: &str, expression: &str| types.or_default(DOCUMENTS, column, &format!("({expression})"));
    [
        ("{de}", may_be_missing("translated_content_de", "o -> 'translations' ->> 'de'")),
        ("{en}", may_be_missing("translated_content_en", "o -> 'translations' ->> 'en'")),
        ("{ar}", may_be_missing("translated_content_ar", "o -> 'translations' ->> 'ar'")),
        ("{tr}", may_be_missing("translated_content_tr", "o -> 'translations' ->> 'tr'")),
        ("{language}", may_be_missing("original_language", "o ->> 'language'")),
        ("{id}", types.word(DOCUMENTS, "id", "o ->> 'document'")),
        ("{patient_id}", types.patient(DOCUMENTS, "patient_id", "o ->> 'patient'")),
        ("{service_date}", types.day(DOCUMENTS, "service_date", "o ->> 'serviceDate'")),
        ("{kh_codes}", types.json(DOCUMENTS, "kh_codes", "o -> 'khCodes'")),
        ("{structured_data}", types.json(DOCUMENTS, "structured_data", "o -> 'structuredData'")),
        ("{alerts}", types.json(DOCUMENTS, "alerts", "o -> 'alerts'")),
        ("{status}", types.word(DOCUMENTS, "status", "o ->> 'status'")),
        ("{agency_id}", types.word(DOCUMENTS, "agency_id", "o ->> 'agency'")),
        ("{created_at}", types.moment(DOCUMENTS, "created_at", "w.wl_now")),
    ]
    .iter()
    .fold(include_str!("../sql/document.sql").to_owned(), |sql, (name, value)| sql.replace(name, value))
}

/// Which part of a stage's result is in which column; the first is its proof.
fn fields(step: &str) -> Vec<(String, String)> {
    let pairs: &[(&str, &str)] = match step {
        "audio" => &[
            ("key", "media_blob_id"),
            ("bytes", "audio_bytes"),
            ("sha256", "audio_sha256"),
            ("type", "audio_type"),
            ("agency", "agency_id"),
            ("patient", "patient_id"),
            ("patientName", "patient_name"),
            ("session", "care_session_id"),
        ],
        "transcript" => {
            &[("text", "transcript_text"), ("language", "transcript_language"), ("model", "transcript_model")]
        }
        "analysis" => &[("analysis", "analysis_json"), ("model", "analysis_model")],
        _ => &[("document", "document_id"), ("agency", "agency_id"), ("patient", "patient_id")],
    };
    pairs.iter().map(|(key, column)| ((*key).to_owned(), (*column).to_owned())).collect()
}

fn beside(types: &Types) -> Beside {
    let assign = |column: &str, value: String| Assign { column: column.to_owned(), value };
    Beside {
        done: vec![
            assign("current_stage", "'COMPLETED'".to_owned()),
            assign("status", "'completed'".to_owned()),
            assign("processed_at", types.moment(MESSAGES, "processed_at", "m.now")),
            assign("failed_stage", "NULL".to_owned()),
        ],
        failed: vec![assign("failed_stage", failed_stage())],
        carried: vec![include_str!("../sql/audit_end.sql").to_owned()],
    }
}

/// The stage that a message has not reached: the one after its own.
fn failed_stage() -> String {
    let words: Vec<&str> = ["RECEIVED"].into_iter().chain(STAGES.map(|(_, word)| word)).collect();
    let pairs = words.windows(2).map(|pair| format!("WHEN '{}' THEN '{}' ", pair[0], pair[1]));
    format!("CASE coalesce(t.current_stage, 'RECEIVED') {}ELSE 'COMPLETED' END", pairs.collect::<String>())
}
