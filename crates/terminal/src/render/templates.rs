//! The list of templates.

use super::style::Style;
use super::table::{Cell, Table};
use super::{escape, time};
use paddock_builds::TemplateRecord;
use paddock_model::api::FirstBuild;
use paddock_model::format_bytes;
use paddock_settings::templates::Listed;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A template, and the record of its build.
pub type Row = (Listed, Option<TemplateRecord>);
/// Templates that are not there yet, because a create has just named them first.
pub type FirstBuilds = BTreeMap<String, FirstBuild>;

pub fn text(templates: &[Row], building: &FirstBuilds, colour: bool) -> String {
    let mut table = Table::with_header(&["NAME", "IMAGE", "BUILT", "SIZE", "COMMAND"]);
    let now = time::now_ms();
    for (Listed { name, settings, built_in }, built) in templates {
        match settings {
            Ok(_) if *built_in => {
                let what = "Python, Node and shells, as far as the host has them";
                let image = "(built in: the host's /usr)";
                table.row([name.as_str().into(), image.into(), "-".into(), "-".into(), what.into()]);
            }
            Ok(policy) => {
                let image = policy.image.as_deref().unwrap_or("(the host's /usr)");
                // The whole key would fill the line; it is in the JSON.
                let image =
                    if built.is_some() { image.chars().take(20).collect() } else { image.to_string() };
                let (when, size) = match built {
                    Some(built) => (time::relative(built.built_ms, now), format_bytes(built.bytes)),
                    None => ("-".to_string(), "-".to_string()),
                };
                let command = policy.command.join(" ");
                let cells = [name.as_str(), image.as_str(), when.as_str(), size.as_str(), command.as_str()];
                table.row(cells.map(Cell::from));
            }
            Err(error) => table.row([name.as_str().into(), Cell::new(&error.to_string(), Style::Bad)]),
        }
    }
    for (name, build) in building {
        let told = match (&build.failure, build.step) {
            (Some(why), _) => Cell::new(&format!("(the build failed) {}", escape::line(why)), Style::Bad),
            (None, 0) => "(the build waits for its turn)".into(),
            (None, step) => {
                let doing = escape::line(&build.doing);
                Cell::from(format!("(is built: step {step} of {}) {doing}", build.steps).as_str())
            }
        };
        table.row([name.as_str().into(), told]);
    }
    table.render(colour)
}

pub fn json(templates: &[Row], building: &FirstBuilds) -> Value {
    let entry = |(Listed { name, settings, built_in }, built): &Row| match settings {
        Ok(policy) => {
            let built = built.as_ref().map(
                |built| json!({ "at_ms": built.built_ms, "bytes": built.bytes, "layers": built.layers }),
            );
            json!({ "name": name, "settings": policy, "built_in": built_in, "built": built })
        }
        Err(error) => json!({ "name": name, "error": error.to_string() }),
    };
    let unbuilt = building.iter().map(|(name, build)| json!({ "name": name, "first_build": build }));
    templates.iter().map(entry).chain(unbuilt).collect()
}
