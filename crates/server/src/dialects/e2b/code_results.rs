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

/// In the shapes of the package `e2b_charts`, which knows one kind of thing in each axes: what has several is `unknown` there.
fn chart(shown: &Value) -> Value {
    let kind = match (text(shown, "type"), text(shown, "drawn")) {
        ("superchart", _) => "superchart",
        (_, "lines") => "line",
        (_, "points") => "scatter",
        (_, "slices") => "pie",
        (_, "bars") => "bar",
        (_, "boxes") => "box_and_whisker",
        _ => "unknown",
    };
    let elements: Vec<_> = elements_of(shown, kind).iter().filter_map(|one| element(one, kind)).collect();
    let title = match &shown["title"] {
        Value::Null if kind == "superchart" => json!(""),
        title => title.clone(),
    };
    let mut chart = json!({ "type": kind, "title": title, "elements": elements });
    if matches!(kind, "line" | "scatter" | "bar" | "box_and_whisker") {
        // Of bars and boxes that lie, the labels of the axes are told as if they stood.
        let sides = if shown["orientation"] == "horizontal" { ["y", "x"] } else { ["x", "y"] };
        for (name, side) in ["x", "y"].into_iter().zip(sides) {
            let label = &shown[format!("{side}_label")];
            chart[format!("{name}_label")] = label.clone();
            chart[format!("{name}_unit")] = json!(label.as_str().and_then(unit_of));
        }
    }
    if matches!(kind, "line" | "scatter") {
        for name in ["x_ticks", "x_tick_labels", "y_ticks", "y_tick_labels"] {
            chart[name] = json!(shown[name].as_array().map_or(&[][..], Vec::as_slice));
        }
        for name in ["x_scale", "y_scale"] {
            chart[name] = json!(shown[name].as_str().unwrap_or("linear"));
        }
    }
    chart
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The lines of boxes that are drawn with lines are beside the boxes.
fn elements_of<'a>(shown: &'a Value, kind: &str) -> &'a [Value] {
    let own = match text(shown, "type") {
        "box" => "box_and_whisker",
        kind => kind,
    };
    let elements = match kind {
        "line" if own != "line" => &shown["lines"],
        _ if own != kind => &Value::Null,
        _ => &shown["elements"],
    };
    elements.as_array().map_or(&[], Vec::as_slice)
}

fn element(shown: &Value, kind: &str) -> Option<Value> {
    let artist = text(shown, "artist");
    let named = |own: &str| match own {
        "" => artist.to_string(),
        own => own.to_string(),
    };
    Some(match kind {
        "superchart" => chart(shown),
        "line" if is_grid_line(&shown["points"]) => return None,
        "line" => {
            let label = match artist.strip_prefix("_child") {
                Some(number) => format!("Line {number}"),
                None => named(text(shown, "label")),
            };
            json!({ "label": label, "points": shown["points"] })
        }
        "scatter" => json!({ "label": named(text(shown, "label")), "points": shown["points"] }),
        "pie" => json!({
            "label": named(text(shown, "label")), "angle": shown["angle"], "radius": shown["radius"],
        }),
        "bar" => {
            let group = match artist.strip_prefix("_container") {
                Some(number) => format!("Group {number}"),
                None => named(text(shown, "group")),
            };
            json!({ "label": written_out(&shown["label"]), "group": group, "value": shown["value"] })
        }
        _ => {
            let mut element = json!({ "label": written_out(&shown["label"]) });
            for name in ["min", "first_quartile", "median", "third_quartile", "max", "outliers"] {
                element[name] = shown[name].clone();
            }
            element
        }
    })
}

/// As the lines are that `axhline` and `axvline` draw.
fn is_grid_line(points: &Value) -> bool {
    points
        .as_array()
        .is_some_and(|points| matches!(&points[..], [from, to] if from[0] == to[0] || from[1] == to[1]))
}

/// The part of a label in round or square brackets: `Time (s)`, `Speed [m/s]`.
fn unit_of(label: &str) -> Option<String> {
    let between = |open: &str, close: char| {
        let rest = &label[label.find(open)? + open.len()..];
        rest.split_once(close).map(|(unit, _)| unit.to_string()).filter(|unit| !unit.is_empty())
    };
    between(" (", ')').or_else(|| between("[", ']'))
}

/// Labels are texts, also those that are numbers.
fn written_out(label: &Value) -> String {
    match label {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            // As Rust writes it: without the fraction of a whole number.
            Some(number) => number.to_string(),
            None => number.to_string(),
        },
        _ => String::new(),
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
        let line = chart(&json!({
            "type": "line", "drawn": "lines", "title": null, "x_label": "Time (s)", "y_label": "Speed [m/s]",
            "elements": [
                { "label": "", "artist": "_child0", "points": [[0, 5], [1, 5]] },
                { "label": "", "artist": "_child1", "points": [[1, 2], [2, 3]] },
            ],
        }));
        assert_eq!(
            line,
            json!({
                "type": "line", "title": null, "x_label": "Time (s)", "y_label": "Speed [m/s]", "x_unit": "s", "y_unit": "m/s",
                "x_ticks": [], "x_tick_labels": [], "y_ticks": [], "y_tick_labels": [], "x_scale": "linear", "y_scale": "linear",
                "elements": [{ "label": "Line 1", "points": [[1, 2], [2, 3]] }],
            })
        );
        let bars = chart(&json!({
            "type": "bar", "drawn": "bars", "orientation": "horizontal", "x_label": "count", "y_label": "year",
            "elements": [
                { "label": 2000.0, "value": 1, "group": "", "artist": "_container1" }, { "label": "b", "value": 1, "group": "own" },
            ],
        }));
        assert_eq!((&bars["x_label"], &bars["y_label"]), (&json!("year"), &json!("count")));
        assert_eq!(bars["elements"][0], json!({ "label": "2000", "value": 1, "group": "Group 1" }));
        assert_eq!(bars["elements"][1]["group"], "own");
        assert_eq!((unit_of("f(x)"), unit_of("a ()"), unit_of("")), (None, None, None));
        let pie = json!({ "label": "", "angle": 90.0, "share": 0.25, "radius": 2.0, "artist": "_child0" });
        let many = chart(&json!({ "type": "superchart", "title": null, "elements": [
            { "type": "box", "drawn": "lines", "elements": [{}], "lines": [{ "label": "a", "points": [] }] },
            { "type": "pie", "drawn": "slices", "elements": [pie] },
            { "type": "bar", "drawn": "several", "elements": [{}] },
        ] }));
        assert_eq!(many["title"], "");
        assert_eq!(many["elements"][0]["elements"], json!([{ "label": "a", "points": [] }]));
        assert_eq!(
            many["elements"][1]["elements"],
            json!([{ "label": "_child0", "angle": 90.0, "radius": 2.0 }])
        );
        assert_eq!(many["elements"][2], json!({ "type": "unknown", "title": null, "elements": [] }));
    }
}
