//! The list of templates.

use super::style::Style;
use super::table::{Cell, Table};
use paddock_engine::templates::Listed;
use serde_json::{Value, json};

pub fn text(templates: &[Listed], colour: bool) -> String {
    if templates.is_empty() {
        return "no templates yet; `paddock template add` makes one\n".to_string();
    }
    let mut table = Table::with_header(&["NAME", "IMAGE", "COMMAND"]);
    for (name, template) in templates {
        match template {
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
    let entry = |(name, template): &Listed| match template {
        Ok(policy) => json!({ "name": name, "settings": policy }),
        Err(error) => json!({ "name": name, "error": error.to_string() }),
    };
    templates.iter().map(entry).collect()
}
