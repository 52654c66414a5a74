//! Tables as other applications have them: other types, other ids, columns that must be filled.

use windlass_standins::Reply;
use windlass_testkit::eventually::eventually;

use crate::scene::Scene;

fn reply() -> Reply {
    Reply::Text(
        r#"{"patientId":null,"patientName":null,"serviceDate":"2026-01-18","khCodes":["LK1","LK \"2\""],"structuredData":
        [{"name":"pulse","value":"70"}],"alerts":[{"type":"fall","severity":"high","description":"d"}],
        "originalLanguage":"de","translations":{"de":null,"en":null,"ar":null,"tr":null}}"#
            .into(),
    )
}

/// A database whose table of documents was made like this before.
async fn scene(columns: &str) -> Scene {
    let scene = Scene::bare().await;
    scene.sql(&format!("CREATE TABLE pending_care_documentations ({columns})")).await;
    scene.migrate().await;
    scene
}

/// Lists as arrays, as text and as JSON; ids that are numbers, UUIDs or short; days that are days; words of an enum.
#[tokio::test(flavor = "multi_thread")]
async fn documents_of_every_type() {
    let list = r#"["LK1", "LK \"2\""]"#;
    let alert = r#"[{"type": "fall", "severity": "high", "description": "d"}]"#;
    for (columns, codes, alerts) in [
        ("id text PRIMARY KEY, kh_codes text[], alerts jsonb[]", "{LK1,\"LK \\\"2\\\"\"}", None),
        ("id serial PRIMARY KEY, kh_codes text, alerts text", list, Some(alert)),
        (
            "id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, kh_codes json, structured_data json, alerts json",
            list,
            Some(alert),
        ),
        (
            "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), kh_codes varchar(20)[], patient_id uuid",
            "{LK1,\"LK \\\"2\\\"\"}",
            Some(alert),
        ),
        (
            "id varchar(36) PRIMARY KEY, kh_codes jsonb, structured_data text, service_date date",
            list,
            Some(alert),
        ),
        (
            "id text PRIMARY KEY, service_date timestamptz, created_at timestamptz NOT NULL DEFAULT now()",
            list,
            Some(alert),
        ),
        ("id text PRIMARY KEY, status doc_status NOT NULL", list, Some(alert)),
    ] {
        let scene = Scene::bare().await;
        scene.sql("CREATE TYPE doc_status AS ENUM ('pending', 'triage', 'approved')").await;
        scene.sql(&format!("CREATE TABLE pending_care_documentations ({columns})")).await;
        scene.migrate().await;
        assert_eq!(scene.check().await, (vec![], vec![]), "{columns}");
        scene.openai.reply(reply());
        scene.message("SM1").await;
        scene.drain().await;
        assert_eq!(scene.of("SM1", "processing_status").await.as_deref(), Some("DONE"), "{columns}");
        let row = scene
            .client
            .query_one(
                "SELECT d.kh_codes::text, d.alerts::text, d.structured_data::jsonb ->> 'pulse', left(d.service_date::text, 10), \
                 d.status::text, m.document_id = d.id::text \
                 FROM pending_care_documentations d JOIN whatsapp_inbound_messages m USING (message_sid)",
                &[],
            )
            .await
            .unwrap();
        let found: Vec<&str> = [0, 2, 3, 4].map(|at| row.get(at)).to_vec();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        assert!(
            found[0] == codes || json(found[0]).is_some() && json(found[0]) == json(codes),
            "{columns}: {found:?}"
        );
        assert_eq!(found[1..], ["70", "2026-01-18", "triage"], "{columns}");
        assert!(alerts.is_none_or(|alerts| json(row.get(1)) == json(alerts)), "{columns}");
        assert!(row.get::<_, bool>(5), "the message knows its document: {columns}");
    }
}

/// `check` sees beforehand what would fail every message: types, and columns that nobody would fill.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_found() {
    let scene = scene(
        "id bigint PRIMARY KEY, kh_codes int[], structured_data text[], patient_id uuid NOT NULL, tenant text NOT NULL, \
         filled text NOT NULL DEFAULT 'x', made int GENERATED ALWAYS AS (1) STORED NOT NULL, service_date int",
    )
    .await;
    scene.sql("ALTER TABLE whatsapp_inbound_messages ALTER transcript_text TYPE jsonb USING NULL, ADD tenant int NOT NULL").await;
    let no_default = "must be filled (NOT NULL) and has no default; give it one, or allow NULL";
    let (missing, wrong) = scene.check().await;
    assert_eq!(missing, [""; 0]);
    assert_eq!(
        wrong,
        [
            "whatsapp_inbound_messages.transcript_text is of type jsonb; it must be text".to_owned(),
            "pending_care_documentations.id is of type bigint; it must be text of at least 36 letters, uuid, or an integer with a sequence".into(),
            "pending_care_documentations.patient_id must be filled; it must be text, or allow NULL".into(),
            "pending_care_documentations.service_date is of type integer; it must be date, a timestamp or text".into(),
            "pending_care_documentations.kh_codes is of type integer[]; it must be jsonb, json, text, text[] or jsonb[]".into(),
            "pending_care_documentations.structured_data is of type text[]; it must be jsonb, json or text".into(),
            format!("pending_care_documentations.tenant {no_default}"),
            format!("whatsapp_inbound_messages.tenant {no_default}"),
        ]
    );
    // A trigger of the owner's may fill them.
    scene
        .sql(
            "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.tenant := 1; RETURN NEW; END $$; \
             CREATE TRIGGER fill BEFORE INSERT ON whatsapp_inbound_messages FOR EACH ROW EXECUTE FUNCTION fill()",
        )
        .await;
    assert_eq!(scene.check().await.1.len(), 7);
}

/// Columns that must be filled and that are left empty now and then: a default is taken where there is one, and where
/// the worker has to write NULL it is said beforehand, default or not. Nothing is paid for and lost.
#[tokio::test(flavor = "multi_thread")]
async fn columns_that_must_be_filled() {
    let filled = "translated_content_de varchar(9) NOT NULL DEFAULT '-', translated_content_ar text NOT NULL DEFAULT '', \
                  original_language text NOT NULL DEFAULT lower('DE')";
    let scene = scene(&format!("id text PRIMARY KEY, {filled}")).await;
    assert_eq!(scene.check().await, (vec![], vec![]));
    let silent = r#"{"patientId":null,"patientName":null,"serviceDate":null,"khCodes":[],"structuredData":[],"alerts":[],
        "originalLanguage":null,"translations":{"de":null,"en":null,"ar":null,"tr":null}}"#;
    scene.openai.reply(Reply::Text(silent.into()));
    scene.message("SM1").await;
    scene.drain().await;
    scene.is("SM1", "processing_status", "DONE").await;
    let sql = "SELECT concat_ws('|', translated_content_de, translated_content_ar, translated_content_en) FROM pending_care_documentations";
    let row = scene.client.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "-|");
    scene.sql("ALTER TABLE pending_care_documentations ALTER translated_content_de DROP DEFAULT").await;
    assert_eq!(
        scene.check().await.1,
        [
            "pending_care_documentations.translated_content_de must be filled (NOT NULL) and has no default; give it one, or allow NULL"
        ]
    );
    for column in ["failed_reason", "failed_stage", "locked_by", "locked_until", "next_attempt_at"] {
        let scene = Scene::bare().await;
        scene
            .sql(&format!(
                "CREATE TABLE whatsapp_inbound_messages (message_sid text PRIMARY KEY, {column} text NOT NULL DEFAULT '')"
            ))
            .await;
        scene.migrate().await;
        scene.message("SM1").await;
        let why = format!(
            "whatsapp_inbound_messages.{column} must be filled (NOT NULL), and NULL is written into it; allow NULL"
        );
        assert_eq!(scene.check().await, (vec![], vec![why.clone()]));
        let output = scene.run(&[]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(&why), "{output:?}");
        assert_eq!(scene.openai.asked().len(), 0, "{column}: nothing was paid for");
    }
}

/// A patient whom nobody knows is no patient, where the column points to the table of patients.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_patient_where_patients_are_pointed_to() {
    for (kind, not_null) in [("text", ""), ("varchar(40)", ""), ("text", " NOT NULL")] {
        let scene = Scene::bare().await;
        scene
            .sql(&format!(
                "CREATE TABLE patients (id {kind} PRIMARY KEY, agency_id text); CREATE TABLE pending_care_documentations \
                 (id text PRIMARY KEY, patient_id {kind}{not_null} REFERENCES patients (id))"
            ))
            .await;
        scene.migrate().await;
        let (_, wrong) = scene.check().await;
        if !not_null.is_empty() {
            let why = "pending_care_documentations.patient_id must be filled and points to another table; allow NULL, \
                       since some notes are about nobody who is known";
            assert_eq!(wrong, [why]);
            continue;
        }
        assert_eq!(wrong, [""; 0]);
        scene.openai.reply(reply());
        scene.message("SM1").await;
        scene.drain().await;
        scene.is("SM1", "processing_status", "DONE").await;
        let of_nobody =
            "SELECT count(*) FROM pending_care_documentations WHERE patient_id IS NULL AND status = 'triage'";
        assert_eq!(scene.count(of_nobody).await, 1);
    }
}

/// A table that changes under a running worker: nothing is tried again and again, no try is used, it is said, and it
/// goes on when the table is right again.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_changes_under_the_worker() {
    for (spoil, mend) in [
        ("ALTER kh_codes TYPE int[] USING NULL", "ALTER kh_codes TYPE jsonb USING NULL"),
        ("ADD tenant text NOT NULL", "DROP tenant"),
        ("RENAME alerts TO warnings", "RENAME warnings TO alerts"),
    ] {
        let scene = Scene::new().await;
        let running = scene.start().await;
        scene.message("SM0").await;
        let done = async |sid: &str| {
            (scene.of(sid, "processing_status").await.as_deref() == Some("DONE")).then_some(())
        };
        eventually("one is done", async || done("SM0").await).await;
        scene.sql("DELETE FROM pending_care_documentations").await;
        scene.sql(&format!("ALTER TABLE pending_care_documentations {spoil}")).await;
        scene.message("SM1").await;
        let told = "SELECT count(*) FROM nurse_tour_stops WHERE why = 'configuration database.schema'";
        eventually(&format!("{spoil}: it is said"), async || (scene.count(told).await == 1).then_some(()))
            .await;
        eventually("it is given back", async || {
            (scene.of("SM1", "processing_status").await? == "RETRY").then_some(())
        })
        .await;
        scene.is("SM1", "retry_count", "0").await;
        scene.is("SM1", "current_stage", "ANALYZED").await;
        scene.sql(&format!("ALTER TABLE pending_care_documentations {mend}")).await;
        assert_eq!(scene.resume().await, ["database of worker_1"]);
        eventually("it goes on", async || done("SM1").await).await;
        running.stop().await;
        assert_eq!(scene.asked("completions"), 2, "nothing was paid for twice");
    }
}

/// What a trigger of the owner's refuses is over, and not tried again for ever.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_trigger_refuses() {
    let scene = Scene::new().await;
    scene
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'canary'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON pending_care_documentations FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    scene.message("SM1").await;
    scene.drain().await;
    scene.is("SM1", "failed_reason", "permanent database.refused").await;
}

/// Somebody else's counts may be anything; and what is over belongs to nobody.
#[tokio::test(flavor = "multi_thread")]
async fn counts_below_nothing_and_owners_of_nothing() {
    let mut scene = Scene::new().await;
    scene.set("WORKER_RETRY_LADDER", "10ms");
    scene.message("SM1").await;
    scene.message("SM2").await;
    scene.sql("UPDATE whatsapp_inbound_messages SET retry_count = -5, crash_count = -2, fence = -7 WHERE message_sid = 'SM1'").await;
    scene
        .sql(
            "UPDATE whatsapp_inbound_messages SET media_url = 'https://elsewhere/' WHERE message_sid = 'SM2'",
        )
        .await;
    scene.openai.faults.push(windlass_standins::Fault::Status(500, None));
    scene.drain().await;
    for (sid, status, tries) in [("SM1", "DONE", "1"), ("SM2", "FAILED", "1")] {
        scene.is(sid, "processing_status", status).await;
        scene.is(sid, "retry_count", tries).await;
        assert_eq!(
            (scene.of(sid, "locked_by").await, scene.of(sid, "locked_until").await),
            (None, None),
            "{sid}"
        );
    }
}

/// An index is built beside the work of others: a write under way holds it up, and it holds up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_built_beside_the_work() {
    let scene = Scene::new().await;
    let admin = scene.admin().await;
    // One is missing, and one is left by a building that broke off.
    scene.sql("DROP INDEX idx_whatsapp_messages_due").await;
    let half =
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_whatsapp_messages_tries'::regclass";
    scene.sql(half).await;
    admin
        .batch_execute("BEGIN; INSERT INTO whatsapp_inbound_messages (message_sid) VALUES ('SMopen')")
        .await
        .unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%INDEX CONCURRENTLY%' AND wait_event_type = 'Lock' \
                 AND datname = current_database() AND pid <> pg_backend_pid()";
    let beside = async {
        scene.until("an index waits for the write", waits, 1).await;
        scene.sql("SET statement_timeout = '10s'").await;
        scene.message("SM1").await;
        admin.batch_execute("COMMIT").await.unwrap();
    };
    let (added, ()) = tokio::join!(scene.migrate(), beside);
    assert!(added.contains(&"the index idx_whatsapp_messages_due".to_owned()), "{added:?}");
    let broken = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid AND c.relname LIKE 'idx_%'";
    assert_eq!(scene.count(broken).await, 0);
    assert_eq!(scene.check().await, (vec![], vec![]));
}

/// A schema of its own, as Prisma writes it into the URL.
#[tokio::test(flavor = "multi_thread")]
async fn tables_in_a_schema_of_the_url() {
    let mut scene = Scene::bare().await;
    scene.sql("CREATE SCHEMA care").await;
    let url = format!("{}?schema=care&connection_limit=5", scene.database.url());
    scene.set("DATABASE_URL", &url);
    scene.migrate().await;
    assert_eq!(scene.check().await, (vec![], vec![]));
    assert_eq!(scene.count("SELECT count(*) FROM pg_tables WHERE schemaname = 'care'").await, 8);
    assert_eq!(scene.count("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").await, 0);
}

/// What is wrong is said before `migrate` has added what is missing, since it may be in its way.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_before_the_migration() {
    let scene = Scene::bare().await;
    scene
        .sql(
            "CREATE TABLE whatsapp_inbound_messages (message_sid text PRIMARY KEY, next_attempt_at bigint); \
             CREATE TABLE pending_care_documentations (id text PRIMARY KEY, kh_codes integer, nurse_id text NOT NULL)",
        )
        .await;
    let (missing, found) = scene.check().await;
    assert!(!missing.is_empty());
    for name in ["kh_codes", "nurse_id", "next_attempt_at"] {
        assert!(found.iter().any(|one| one.contains(name)), "{name}: {found:?}");
    }
}
