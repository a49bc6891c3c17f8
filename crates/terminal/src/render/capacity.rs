//! Limits of the host beside the needs of a number of sandboxes.

use super::style::Style;
use super::table::{Cell, Table};
use paddock_model::{Capacity, LimitState};

pub fn text(capacity: &Capacity, colour: bool) -> String {
    let (verdict, style) = if capacity.enough { ("enough", Style::Good) } else { ("not enough", Style::Bad) };
    let mut title = Table::new(0);
    let what = format!("for {} sandboxes ({} live now)", capacity.sandboxes, capacity.live);
    title.row([Cell::new(&what, Style::Bold), Cell::new(verdict, style)]);
    let mut limits = Table::new(2);
    for check in &capacity.limits {
        let (state, style) = match check.state {
            LimitState::Enough => ("enough", Style::Good),
            LimitState::TooLowForWork => ("low", Style::Warning),
            LimitState::TooLow => ("too low", Style::Bad),
            LimitState::Unknown => ("unknown", Style::Warning),
        };
        limits.row([check.name.as_str().into(), Cell::new(state, style), check.detail.as_str().into()]);
        if let Some(remedy) = &check.remedy {
            limits.row(["".into(), "".into(), Cell::new(&format!("to mend: {remedy}"), Style::Plain)]);
        }
    }
    title.render(colour) + &limits.render(colour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::{LimitCheck, LimitUnit};

    #[test]
    fn each_limit_that_is_too_low_has_its_setting_below() {
        let check = |name: &str, state, detail: &str, remedy: Option<&str>| LimitCheck {
            name: name.into(),
            setting: None,
            state,
            unit: LimitUnit::Count,
            limit: None,
            needed: 1,
            needed_at_work: 1,
            per_sandbox: 1,
            per_sandbox_at_work: 1,
            detail: detail.into(),
            remedy: remedy.map(str::to_string),
        };
        let capacity = Capacity {
            sandboxes: 20_000,
            live: 3,
            enough: false,
            limits: vec![
                check("places", LimitState::Enough, "36,863; 20,000 needed", None),
                check("process ids", LimitState::TooLow, "4,096; 20,100 needed", Some("sysctl -w x=1")),
                check("memory", LimitState::Unknown, "/proc/meminfo: gone", None),
            ],
        };
        let expected = "\
for 20000 sandboxes (3 live now)  not enough
  places       enough   36,863; 20,000 needed
  process ids  too low  4,096; 20,100 needed
                        to mend: sysctl -w x=1
  memory       unknown  /proc/meminfo: gone
";
        assert_eq!(text(&capacity, false), expected);
    }
}
