//! DOC_CREATED: one document for each message, for a person to check.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_engine::core::time::Time;

use super::Audit;
use super::analysis::Analysis;
use super::contradiction::{self, Spoken};
use crate::message::{self, Message};
use crate::people::{Bound, Known};
use crate::trouble::Trouble;

/// What the document says beside the transcript. The statement that goes with
/// the stage makes a row of it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    /// The document's id.
    pub(crate) document: String,
    #[serde(default, deserialize_with = "message::id")]
    pub(crate) agency: Option<String>,
    #[serde(default, deserialize_with = "message::id")]
    pub(crate) patient: Option<String>,
    #[serde(default)]
    patient_name: Option<String>,
    #[serde(default)]
    service_date: String,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    kh_codes: Vec<Value>,
    #[serde(default)]
    structured_data: Value,
    #[serde(default)]
    alerts: Vec<Value>,
    #[serde(default)]
    translations: Map<String, Value>,
    #[serde(default)]
    status: String,
    #[serde(default, skip_deserializing)]
    pub(super) audit: Audit,
}

/// Writes the document down. `known` is what is certain; what only the model says is a proposal. A document that
/// exists is pointed to, and stays as it is.
pub(crate) fn compose(
    known: Known,
    message: &Message,
    analysis: Analysis,
    spoken_in: Option<String>,
) -> Result<Document, Trouble> {
    let Known { bound, document, only_heard, bound_as } = known;
    let agency = bound.agency.clone().ok_or_else(|| Trouble::needs_human("agency_unresolved"))?;
    let (id, name) = (analysis.patient_id.as_deref(), analysis.patient_name.as_deref());
    let spoken = contradiction::compare(&bound, id, name);
    let mut structured_data = match analysis.structured_data {
        Value::Object(pairs) => pairs,
        _ => Map::new(),
    };
    let mut alerts = analysis.alerts;
    // Whoever bound it may have named another than the id means.
    let written = contradiction::compare(&bound, None, bound_as.as_deref());
    let contradicts = spoken == Spoken::Contradicts || written == Spoken::Contradicts;
    if contradicts {
        let shown = contradiction::shown(&bound, bound_as.as_deref(), id, name);
        show(&mut structured_data, shown);
    }
    if let (Spoken::Contradicts, Some(other)) = (written, &bound_as) {
        alerts.insert(0, contradiction::written_alert(&bound, other));
    }
    // A patient whom only the model heard has no other name than the one that it heard with it.
    if !(only_heard && spoken == Spoken::CannotTell) {
        alerts.splice(..0, contradiction::alert(&spoken, &bound, id, name));
    }
    // Somebody is named, and there is no name to compare it with.
    let unverified = spoken == Spoken::CannotTell && bound.patient_name.is_none() && !only_heard;
    // A note whose patient nobody can tell, or that names another, or may, is laid before a person as such.
    let sure = bound.patient.is_some() && !contradicts && !unverified;
    let Bound { agency: _, patient, patient_name: own, session: _ } = bound;
    // The name of a patient who is known is that patient's own, whatever the voice says.
    let said = if patient.is_none() || only_heard { analysis.patient_name } else { None };
    let date = analysis.service_date.filter(|date| is_date(date));
    Ok(Document {
        document,
        agency: Some(agency),
        patient,
        patient_name: own.or(said),
        service_date: date.unwrap_or_else(|| message.day()),
        language: analysis.original_language.filter(|language| !language.is_empty()).or(spoken_in),
        kh_codes: analysis.kh_codes,
        structured_data: Value::Object(structured_data),
        alerts,
        translations: analysis.translations,
        status: if sure { "pending" } else { "triage" }.to_owned(),
        audit: Audit { provider: Some("database"), ..Audit::default() },
    })
}

/// Shows the contradiction among what was measured. What was measured under the same name is kept under another.
fn show(measured: &mut Map<String, Value>, contradiction: Value) {
    const NAME: &str = "patientContradiction";
    if let Some(spoken) = measured.insert(NAME.to_owned(), contradiction) {
        let mut name = format!("{NAME}_spoken");
        while measured.contains_key(&name) {
            name.push('_');
        }
        measured.insert(name, spoken);
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && format!("{text}T00:00:00Z").parse::<Time>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_of_the_same_name_is_kept() {
        let measured = serde_json::json!({"patientContradiction": "1", "patientContradiction_spoken": "2"});
        let Value::Object(mut measured) = measured else { unreachable!("an object") };
        show(&mut measured, Value::Bool(true));
        let all = serde_json::json!({
            "patientContradiction": true, "patientContradiction_spoken": "2", "patientContradiction_spoken_": "1"
        });
        assert_eq!(Value::Object(measured), all);
    }

    #[test]
    fn dates() {
        assert!(is_date("2026-01-31"));
        for text in ["2026-02-30", "31.01.2026", "", "2026-1-31", "yesterday!"] {
            assert!(!is_date(text), "{text}");
        }
    }
}
