//! The list of templates.

use super::style::Style;
use super::table::{Cell, Table};
use paddock_engine::templates::Listed;
use serde_json::{Value, json};

pub fn text(templates: &[Listed], colour: bool) -> String {
    let mut table = Table::with_header(&["NAME", "IMAGE", "COMMAND"]);
    for Listed { name, settings, built_in } in templates {
        match settings {
            Ok(_) if *built_in => {
                let what = "Python, Node and shells, as far as the host has them";
                table.row([name.as_str().into(), "(built in: the host's /usr)".into(), what.into()]);
            }
            Ok(policy) => {
                let image = policy.image.as_deref().unwrap_or("(the host's /usr)");
                table.row([name.as_str().into(), image.into(), policy.command.join(" ").as_str().into()]);
            }
            Err(error) => table.row([name.as_str().into(), Cell::new(&error.to_string(), Style::Bad)]),
        }
    }
    table.render(colour)
}

pub fn json(templates: &[Listed]) -> Value {
    let entry = |Listed { name, settings, built_in }: &Listed| match settings {
        Ok(policy) => json!({ "name": name, "settings": policy, "built_in": built_in }),
        Err(error) => json!({ "name": name, "error": error.to_string() }),
    };
    templates.iter().map(entry).collect()
}
