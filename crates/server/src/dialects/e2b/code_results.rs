//! Results of code, in the shapes that E2B's clients read.

use paddock_model::api::CodeResult;
use serde_json::{Map, Value, json};

pub fn result(result: &CodeResult) -> Value {
    let mut line = json!({ "type": "result", "is_main_result": result.main });
    let texts = [
        ("html", &result.html),
        ("markdown", &result.markdown),
        ("svg", &result.svg),
        ("png", &result.png),
        ("jpeg", &result.jpeg),
        ("pdf", &result.pdf),
        ("latex", &result.latex),
        ("javascript", &result.javascript),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            line[name] = json!(text);
        }
    }
    if let Some(text) = &result.text {
        line["text"] = json!(unquoted(text));
    }
    if let Some(value) = &result.json {
        line["json"] = value.clone();
    }
    if let Some(data) = &result.data {
        line["data"] = columns(data);
    }
    if let Some(shown) = &result.chart {
        line["chart"] = chart(shown);
    }
    if !result.extra.is_empty() {
        line["extra"] = json!(result.extra);
    }
    line
}

/// E2B shows a text without the quotes of Python's `repr`.
fn unquoted(text: &str) -> &str {
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    quoted('\'').or_else(|| quoted('"')).unwrap_or(text)
}

/// A table by its columns, as `DataFrame.to_dict("list")` has it.
fn columns(data: &Value) -> Value {
    let (Some(names), Some(rows)) = (data["columns"].as_array(), data["rows"].as_array()) else {
        return data.clone();
    };
    let column = |at: usize| rows.iter().map(|row| row[at].clone()).collect::<Vec<_>>();
    let columns = names.iter().enumerate();
    let columns =
        columns.map(|(at, name)| (name.as_str().unwrap_or_default().to_string(), json!(column(at))));
    Value::Object(columns.collect::<Map<_, _>>())
}

/// With every field that the SDKs read, in the shapes of `e2b_charts`.
fn chart(shown: &Value) -> Value {
    let Some(fields) = shown.as_object() else { return shown.clone() };
    let mut chart = fields.clone();
    let kind = match fields.get("type").and_then(Value::as_str).unwrap_or("unknown") {
        "box" => "box_and_whisker",
        kind => kind,
    };
    chart.insert("type".into(), json!(kind));
    let mut default = |name: &str, value: Value| {
        if chart.get(name).is_none_or(Value::is_null) {
            chart.insert(name.into(), value);
        }
    };
    default("title", json!(""));
    default("elements", json!([]));
    if matches!(kind, "line" | "scatter" | "bar" | "box_and_whisker") {
        for (label, unit) in [("x_label", "x_unit"), ("y_label", "y_unit")] {
            default(label, Value::Null);
            default(unit, fields.get(label).and_then(Value::as_str).and_then(unit_of).into());
        }
    }
    if matches!(kind, "line" | "scatter") {
        for name in ["x_ticks", "x_tick_labels", "y_ticks", "y_tick_labels"] {
            default(name, json!([]));
        }
    }
    let elements = chart.get_mut("elements").and_then(Value::as_array_mut);
    for (number, element) in elements.into_iter().flatten().enumerate() {
        match kind {
            "superchart" => *element = self::chart(element),
            "pie" if element.get("radius").is_none() => element["radius"] = json!(1.0),
            "line" if element["label"] == "" => element["label"] = json!(format!("Line {number}")),
            "bar" | "box_and_whisker" => written_out(element),
            _ => {}
        }
    }
    Value::Object(chart)
}

/// The part of a label in round or square brackets: `Time (s)`, `Speed [m/s]`.
fn unit_of(label: &str) -> Option<String> {
    let between = |open: &str, close: char| {
        let rest = &label[label.find(open)? + open.len()..];
        rest.split_once(close).map(|(unit, _)| unit.to_string()).filter(|unit| !unit.is_empty())
    };
    between(" (", ')').or_else(|| between("[", ']'))
}

/// Labels are texts, also those that are numbers; bars without a group have the first.
fn written_out(element: &mut Value) {
    if let Some(label) = element.get_mut("label").filter(|label| label.is_number()) {
        *label = json!(label.to_string());
    }
    if element.get("group").is_some_and(|group| group == "") {
        element["group"] = json!("Group 0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lose_their_quotes_and_tables_become_columns() {
        let shown = CodeResult {
            main: true,
            text: Some("'hi'".into()),
            data: Some(json!({ "columns": ["a", "b"], "rows": [[1, "x"], [2, "y"]], "total_rows": 2 })),
            ..CodeResult::default()
        };
        let line = result(&shown);
        assert_eq!((&line["text"], &line["is_main_result"]), (&json!("hi"), &json!(true)));
        assert_eq!(line["data"], json!({ "a": [1, 2], "b": ["x", "y"] }));
        assert_eq!((unquoted("2"), unquoted("'"), unquoted("'a\"")), ("2", "'", "'a\""));
    }

    #[test]
    fn charts_have_the_fields_of_their_kind() {
        let line = chart(
            &json!({ "type": "line", "title": null, "elements": [{ "label": "", "points": [[1, 2]] }] }),
        );
        for name in ["x_label", "x_unit", "x_ticks", "y_tick_labels", "title"] {
            assert!(line.get(name).is_some(), "{name}");
        }
        assert_eq!(line["elements"][0]["label"], "Line 0");
        let bars = chart(&json!({
            "type": "bar", "x_label": "Time (s)", "y_label": "Speed [m/s]",
            "elements": [{ "label": 2000, "value": 1, "group": "" }, { "label": "b", "value": 1, "group": "own" }],
        }));
        assert_eq!((&bars["x_unit"], &bars["y_unit"]), (&json!("s"), &json!("m/s")));
        assert_eq!(bars["elements"][0], json!({ "label": "2000", "value": 1, "group": "Group 0" }));
        assert_eq!(bars["elements"][1]["group"], "own");
        assert_eq!((unit_of("f(x)"), unit_of("a ()"), unit_of("")), (None, None, None));
        let many = chart(
            &json!({ "type": "superchart", "elements": [{ "type": "box", "elements": [] }, { "type": "pie", "elements": [{ "label": "a", "angle": 90.0 }] }] }),
        );
        assert_eq!(many["elements"][0]["type"], "box_and_whisker");
        assert_eq!(many["elements"][1]["elements"][0]["radius"], 1.0);
    }
}
