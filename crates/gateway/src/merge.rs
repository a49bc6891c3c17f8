//! Pages of several nodes put together as one.
//!
//! The cursor of a node is a place in time and not a number of a row: the moment of a creation, and an id. So the same cursor means the same
//! place on every node, and a page goes on where the last one ended although nodes came or went meanwhile.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::cmp::Ordering;

/// Where an entry stands in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub created_ms: u64,
    pub id: String,
}

impl Place {
    /// As the nodes write a cursor.
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}.{}", self.created_ms, self.id))
    }

    pub fn parse(text: &str) -> Option<Place> {
        let plain = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let (created, id) = plain.split_once('.')?;
        Some(Place { created_ms: created.parse().ok()?, id: id.to_string() })
    }
}

/// The order of a list, as the nodes have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    pub oldest_first: bool,
    /// Of two that were created in the same millisecond, the one with the smaller id comes first.
    pub smaller_id_first: bool,
}

impl Order {
    fn compare(self, one: &Place, other: &Place) -> Ordering {
        let by_time = one.created_ms.cmp(&other.created_ms);
        let by_id = one.id.cmp(&other.id);
        let by_time = if self.oldest_first { by_time } else { by_time.reverse() };
        by_time.then(if self.smaller_id_first { by_id } else { by_id.reverse() })
    }
}

/// One node's page: its entries in order, and the place that it has looked up to, where there is more.
#[derive(Debug, Default)]
pub struct Page {
    pub entries: Vec<(Place, Value)>,
    pub more_after: Option<Place>,
}

impl Page {
    /// True if everything in it stands after the end of the last page, and its own end stands behind all of it.
    pub fn goes_on(&self, order: Order, after: Option<&Place>) -> bool {
        let is_after = |place: &Place| after.is_none_or(|end| order.compare(place, end) == Ordering::Greater);
        let is_within = |place: &Place| {
            self.more_after.as_ref().is_none_or(|end| order.compare(place, end) != Ordering::Greater)
        };
        self.entries.iter().all(|(place, _)| is_after(place) && is_within(place))
            && self.more_after.as_ref().is_none_or(is_after)
    }
}

/// The entries of all pages in order, at most `limit`, and where the next page begins. Nothing is shown that stands behind the end of a page
/// which has more: what comes between is not known yet.
pub fn merge(pages: Vec<Page>, order: Order, limit: usize) -> (Vec<Value>, Option<Place>) {
    let known_up_to = pages
        .iter()
        .filter_map(|page| page.more_after.clone())
        .min_by(|one, other| order.compare(one, other));
    let mut entries: Vec<(Place, Value)> = pages.into_iter().flat_map(|page| page.entries).collect();
    entries.sort_by(|(one, _), (other, _)| order.compare(one, other));
    // Two nodes that name one sandbox: one of them lies, or both are one.
    entries.dedup_by(|(one, _), (other, _)| one == other);
    if let Some(end) = &known_up_to {
        entries.retain(|(place, _)| order.compare(place, end) != Ordering::Greater);
    }
    let is_cut = entries.len() > limit;
    entries.truncate(limit);
    let next = match entries.last() {
        Some((last, _)) if is_cut => Some(last.clone()),
        _ => known_up_to,
    };
    (entries.into_iter().map(|(_, value)| value).collect(), next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NEWEST: Order = Order { oldest_first: false, smaller_id_first: true };

    fn place(created_ms: u64, id: &str) -> Place {
        Place { created_ms, id: id.into() }
    }

    fn page(entries: &[(u64, &str)], more: bool) -> Page {
        let entries: Vec<_> = entries.iter().map(|(at, id)| (place(*at, id), json!(id))).collect();
        let more_after = more.then(|| entries.last().map(|(place, _)| place.clone())).flatten();
        Page { entries, more_after }
    }

    #[test]
    fn pages_are_one_list_by_age() {
        let pages = vec![page(&[(9, "a"), (4, "b")], false), page(&[(7, "c"), (7, "d"), (1, "e")], false)];
        let (values, next) = merge(pages, NEWEST, 10);
        assert_eq!(values, [json!("a"), json!("c"), json!("d"), json!("b"), json!("e")]);
        assert_eq!(next, None);
        let pages = vec![page(&[(4, "b"), (9, "a")], false), page(&[(1, "e")], false)];
        let (values, _) = merge(pages, Order { oldest_first: true, smaller_id_first: false }, 10);
        assert_eq!(values, [json!("e"), json!("b"), json!("a")]);
    }

    #[test]
    fn nothing_is_shown_before_what_is_not_known_yet() {
        // The first node has more behind 8; the entry 5 of the second waits for it.
        let pages = vec![page(&[(9, "a"), (8, "b")], true), page(&[(5, "c")], false)];
        let (values, next) = merge(pages, NEWEST, 10);
        assert_eq!(values, [json!("a"), json!("b")]);
        assert_eq!(next, Some(place(8, "b")));
    }

    #[test]
    fn a_page_ends_with_its_last_entry() {
        let pages = vec![page(&[(9, "a"), (5, "b")], true), page(&[(8, "c"), (7, "d")], true)];
        let (values, next) = merge(pages, NEWEST, 2);
        assert_eq!((values, next), (vec![json!("a"), json!("c")], Some(place(8, "c"))));
        let (values, next) = merge(vec![page(&[(9, "a"), (5, "b")], false)], NEWEST, 2);
        assert_eq!((values.len(), next), (2, None));
    }

    #[test]
    fn a_filter_that_found_nothing_yet_goes_on() {
        let searching = Page { entries: Vec::new(), more_after: Some(place(3, "x")) };
        let (values, next) = merge(vec![searching, page(&[(2, "a")], false)], NEWEST, 10);
        assert_eq!((values.len(), next), (0, Some(place(3, "x"))));
    }

    #[test]
    fn all_pages_together_hold_each_entry_once() {
        let all: Vec<(u64, String)> = (0..40).map(|number| (number / 3, format!("id-{number:02}"))).collect();
        let mut cursor: Option<Place> = None;
        let mut seen = Vec::new();
        loop {
            let of_node = |node: usize| {
                let mut own: Vec<Place> = all
                    .iter()
                    .enumerate()
                    .filter(|(number, _)| number % 3 == node)
                    .map(|(_, (at, id))| place(*at, id))
                    .filter(|one| {
                        cursor.as_ref().is_none_or(|after| NEWEST.compare(one, after) == Ordering::Greater)
                    })
                    .collect();
                own.sort_by(|one, other| NEWEST.compare(one, other));
                let more = own.len() > 4;
                own.truncate(4);
                let more_after = own.last().cloned().filter(|_| more);
                Page {
                    entries: own.into_iter().map(|one| (one.clone(), json!(one.id))).collect(),
                    more_after,
                }
            };
            let (values, next) = merge((0..3).map(of_node).collect(), NEWEST, 4);
            seen.extend(values);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        let distinct: std::collections::BTreeSet<String> = seen.iter().map(Value::to_string).collect();
        assert_eq!((seen.len(), distinct.len()), (40, 40));
    }

    #[test]
    fn a_cursor_is_the_nodes_own() {
        let here = place(17, "sb-0030000000000001");
        assert_eq!(Place::parse(&here.text()), Some(here));
        for garbage in ["", "%", "MTc", "eC4x"] {
            assert_eq!(Place::parse(garbage), None, "{garbage}");
        }
    }
}
