//! The abilities of a host and its missing parts, one table per backend.

use super::style::Style;
use super::table::{Cell, Table};
use paddock_model::{Availability, CheckState};

pub fn text(backends: &[Availability], colour: bool) -> String {
    let blocks: Vec<String> = backends.iter().map(|backend| block(backend, colour)).collect();
    if blocks.is_empty() { "no backend is built in\n".to_string() } else { blocks.join("\n") }
}

fn block(backend: &Availability, colour: bool) -> String {
    let (verdict, style) = if backend.usable { ("usable", Style::Good) } else { ("not usable", Style::Bad) };
    let mut title = Table::new(0);
    title.row([Cell::new(&backend.backend, Style::Bold), Cell::new(verdict, style)]);
    let mut checks = Table::new(2);
    for check in &backend.checks {
        let (state, style) = match check.state {
            CheckState::Good => ("good", Style::Good),
            CheckState::Degraded => ("degraded", Style::Warning),
            CheckState::Missing => ("missing", Style::Bad),
        };
        checks.row([check.name.as_str().into(), Cell::new(state, style), check.detail.as_str().into()]);
        if let Some(remedy) = &check.remedy {
            checks.row(["".into(), "".into(), Cell::new(&format!("to mend: {remedy}"), Style::Plain)]);
        }
    }
    title.render(colour) + &checks.render(colour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::Check;

    #[test]
    fn each_lack_has_its_remedy_below() {
        let check = |name: &str, state, detail: &str, remedy: Option<&str>| Check {
            name: name.into(),
            state,
            detail: detail.into(),
            remedy: remedy.map(str::to_string),
        };
        let process = Availability {
            backend: "process".into(),
            usable: true,
            checks: vec![
                check("user namespaces", CheckState::Good, "allowed", None),
                check("cgroups", CheckState::Degraded, "not delegated", Some("systemd-run --user --scope")),
            ],
        };
        let expected = "\
process  usable
  user namespaces  good      allowed
  cgroups          degraded  not delegated
                             to mend: systemd-run --user --scope
";
        assert_eq!(text(&[process], false), expected);
    }
}
