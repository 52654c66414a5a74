//! DOC_CREATED: one document for each message, for a person to check.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass::core::time::Time;

use super::Audit;
use super::analysis::Analysis;
use crate::message::Message;
use crate::people::Bound;
use crate::trouble::Trouble;

/// What the document says beside the transcript. The statement that goes with
/// the stage makes a row of it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    pub(crate) document: String,
    #[serde(default)]
    pub(crate) agency: Option<String>,
    #[serde(default)]
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

/// Writes the document down. `bound` is what is known for certain; what only
/// the model says is a proposal. A document that exists is pointed to, and stays as it is.
pub(crate) fn compose(
    existing: Option<String>,
    message: &Message,
    bound: Bound,
    analysis: Analysis,
    spoken: Option<String>,
) -> Result<Document, Trouble> {
    let Bound { agency, patient, patient_name, session: _ } = bound;
    let agency = agency.ok_or_else(|| Trouble::needs_human("agency_unresolved"))?;
    let known = patient.is_some();
    let date = analysis.service_date.filter(|date| is_date(date));
    Ok(Document {
        document: existing.unwrap_or_else(|| format!("pd_{}", message.sid)),
        agency: Some(agency),
        patient,
        patient_name: patient_name.or(analysis.patient_name),
        service_date: date.unwrap_or_else(|| message.day()),
        language: analysis.original_language.filter(|language| !language.is_empty()).or(spoken),
        kh_codes: analysis.kh_codes,
        structured_data: if analysis.structured_data.is_object() {
            analysis.structured_data
        } else {
            Value::Object(Map::new())
        },
        alerts: analysis.alerts,
        translations: analysis.translations,
        // A note whose patient nobody can tell is laid before a person as such.
        status: if known { "pending" } else { "triage" }.to_owned(),
        audit: Audit { provider: Some("database"), ..Audit::default() },
    })
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && format!("{text}T00:00:00Z").parse::<Time>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert!(is_date("2026-01-31"));
        for text in ["2026-02-30", "31.01.2026", "", "2026-1-31", "yesterday!"] {
            assert!(!is_date(text), "{text}");
        }
    }
}
