//! Messages of JSON-RPC 2.0.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// A request, or a notification when it has no id.
#[derive(Deserialize)]
pub(super) struct Message {
    #[serde(default, deserialize_with = "present")]
    pub id: Option<Value>,
    pub method: String,
    #[serde(default)]
    pub params: Value,
}

/// An id that is there, be it null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// An answer.
pub(super) fn answer(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A refusal.
pub(super) fn refuse(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
