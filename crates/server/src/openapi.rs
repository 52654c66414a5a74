//! The OpenAPI document, made from the table of calls.

use std::sync::LazyLock;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::access::Need;
use crate::calls::{CALLS, Call, Size, refusal_schema};

/// The document as text.
pub(crate) fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| write().to_string());
    &DOCUMENT
}

fn write() -> Value {
    // What is read and what is written look apart: a field that may be left
    // out of a request is always there in an answer.
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
    };
    let mut reads = settings().for_deserialize().into_generator();
    let mut writes = settings().for_serialize().into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for call in CALLS.iter().filter(|call| !call.hidden) {
        let verbs = paths.entry(call.path).or_insert_with(|| json!({}));
        verbs[call.verb().to_lowercase()] = operation(call, &mut reads, &mut writes);
    }
    let mut schemas = writes.take_definitions(true);
    schemas.extend(reads.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable background work over HTTP. Times are RFC 3339 UTC with milliseconds, durations are written 700ms, 30s, 5m, 2h, 1d. Unknown fields are refused by name.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(call: &Call, reads: &mut SchemaGenerator, writes: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": call.id,
        "summary": call.does,
        "parameters": parameters(call),
        "responses": responses(call, writes),
    });
    if let Some((size, schema)) = &call.body {
        let mut content = json!({ "application/json": { "schema": schema(reads) } });
        if *size == Size::Form {
            content["application/x-www-form-urlencoded"] = json!({ "schema": schema(reads) });
        }
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    if call.need == Need::Nothing {
        operation["security"] = json!([]);
    }
    operation
}

fn parameters(call: &Call) -> Value {
    let in_path = call.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let schema = match name {
            "id" => json!({ "type": "string", "format": "uuid" }),
            _ => {
                // Names of workers are longer than others.
                let bytes_max = if call.path.starts_with("/v1/workers/") { 256 } else { 128 };
                json!({ "type": "string", "minLength": 1, "maxLength": bytes_max, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$" })
            }
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let in_query = call.params.iter().map(|param| {
        let schema: Value = serde_json::from_str(param.schema).unwrap_or_default();
        json!({ "name": param.name, "in": "query", "description": param.means, "schema": schema })
    });
    in_path.chain(in_query).collect()
}

fn responses(call: &Call, writes: &mut SchemaGenerator) -> Value {
    let mut responses = json!({});
    for given in &call.answers {
        let mut response = json!({ "description": given.means });
        if let Some((content_type, schema)) = given.content {
            let schema =
                schema.map_or_else(|| json!({ "type": "string" }), |schema| schema(writes).to_value());
            response["content"] = json!({ content_type: { "schema": schema } });
        }
        responses[given.status.to_string()] = response;
    }
    for status in &call.refusals {
        let means = http::StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason());
        responses[status.to_string()] = json!({
            "description": means.unwrap_or("Refused"),
            "content": { "application/json": { "schema": refusal_schema(writes) } },
        });
    }
    responses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_call_and_no_loose_end() {
        let document: Value = serde_json::from_str(document()).unwrap();
        for call in CALLS.iter().filter(|call| !call.hidden) {
            let operation = &document["paths"][call.path][call.verb().to_lowercase()];
            assert_eq!(operation["operationId"], call.id);
            assert!(!call.answers.is_empty() && !call.does.is_empty(), "{}", call.id);
        }
        let text = document.to_string();
        for (at, _) in text.match_indices("\"$ref\":\"") {
            let name = text[at + 8..].split('"').next().unwrap();
            let name = name.strip_prefix("#/components/schemas/").unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }

    /// A type that is read and one that is written must not share a name.
    #[test]
    fn names_of_types_are_unique() {
        let mut reads = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let mut writes = SchemaSettings::draft2020_12().for_serialize().into_generator();
        for call in CALLS.iter() {
            operation(call, &mut reads, &mut writes);
        }
        let written = writes.take_definitions(false);
        for name in reads.take_definitions(false).keys() {
            assert!(!written.contains_key(name), "{name}");
        }
    }
}
