//! Holds answers against the OpenAPI document. Knows as much of JSON Schema as the document uses.

use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(crate) struct Document(pub(crate) Value);

impl Document {
    pub(crate) fn new() -> Self {
        Self(serde_json::to_value(punctual_server::document()).unwrap())
    }

    /// The operation that serves a method and a path, if it is part of the interface.
    pub(crate) fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap();
        let paths = self.0["paths"].as_object().unwrap();
        let exact = paths.get(path);
        let item = exact.or_else(|| paths.iter().find(|(text, _)| fits(text, path)).map(|(_, path)| path))?;
        item.get(method.to_lowercase())
    }

    /// Panics when an answer is not as the document says.
    pub(crate) fn check(&self, method: &str, path: &str, status: u16, body: &Value) {
        let Some(operation) = self.operation(method, path) else { return };
        let said = &operation["responses"][status.to_string()];
        assert!(said.is_object(), "{method} {path}: {status} is not documented: {body}");
        if status == 304 {
            return;
        }
        let media = if status >= 400 { "application/problem+json" } else { "application/json" };
        let content = &said["content"][media];
        if status >= 400 {
            let code = body["code"].as_str().unwrap();
            assert!(content["examples"][code].is_object(), "{method} {path}: {code} is not documented");
        }
        if content["schema"].is_object() {
            let shape = self.mismatch(&content["schema"], body, "");
            assert_eq!(shape, None, "{method} {path} {status}: {body}");
        }
    }

    /// The first place where a value is not as its schema says; None: it fits.
    fn mismatch(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        if let Some(name) = schema["$ref"].as_str() {
            return self.mismatch(self.target(name), value, at);
        }
        if let Some(parts) = schema["allOf"].as_array() {
            return self.mismatch(&self.merged(parts), value, at);
        }
        if let Some(options) = schema["oneOf"].as_array() {
            let fits = options.iter().any(|schema| self.mismatch(schema, value, at).is_none());
            return (!fits).then(|| format!("{at}: fits none of oneOf"));
        }
        if !schema["type"].is_null() && !has_type(&schema["type"], value) {
            return Some(format!("{at}: {value} is not {}", schema["type"]));
        }
        if schema["enum"].as_array().is_some_and(|list| !list.contains(value)) {
            return Some(format!("{at}: {value} is not one of {}", schema["enum"]));
        }
        match value {
            Value::Array(items) if schema["items"].is_object() => items
                .iter()
                .enumerate()
                .find_map(|(nth, value)| self.mismatch(&schema["items"], value, &format!("{at}/{nth}"))),
            Value::Object(_) if schema["properties"].is_object() => self.object(schema, value, at),
            _ => None,
        }
    }

    fn object(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        let object = value.as_object().unwrap();
        let mut required =
            schema["required"].as_array().into_iter().flatten().map(|required| required.as_str().unwrap());
        if let Some(missing) = required.find(|text| !object.contains_key(*text)) {
            return Some(format!("{at}: {missing} is missing"));
        }
        object.iter().find_map(|(key, object)| match &schema["properties"][key] {
            Value::Null => Some(format!("{at}/{key}: is not documented")),
            property => self.mismatch(property, object, &format!("{at}/{key}")),
        })
    }

    /// The parts of an `allOf` as one object.
    fn merged(&self, parts: &[Value]) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for part in parts {
            let part = part["$ref"].as_str().map_or(part, |name| self.target(name));
            properties.extend(part["properties"].as_object().unwrap().clone());
            required.extend(part["required"].as_array().into_iter().flatten().cloned());
        }
        json!({"type": "object", "properties": properties, "required": required})
    }

    fn target(&self, name: &str) -> &Value {
        self.0.pointer(name.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{name} leads nowhere"))
    }
}

fn has_type(types: &Value, value: &Value) -> bool {
    let one = |kind: &Value| match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("type {other}"),
    };
    types.as_array().map_or_else(|| one(types), |all| all.iter().any(one))
}

fn fits(template: &str, path: &str) -> bool {
    let (a, b): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| *a == b || (a.starts_with('{') && !b.is_empty()))
}
