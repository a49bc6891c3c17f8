//! The node that a gateway chose for a create with an idempotency key. The row is written before the create is first sent, so that the same
//! key leads to the same node whatever breaks in between.

use super::{Store, StoreError};
use rusqlite::{OptionalExtension, params};

pub struct CreatePlaces<'a>(&'a Store);

impl Store {
    pub fn create_places(&self) -> CreatePlaces<'_> {
        CreatePlaces(self)
    }
}

impl CreatePlaces<'_> {
    pub fn node_of(&self, tenant: &str, key: &str) -> Result<Option<u16>, StoreError> {
        let sql = "SELECT node FROM create_places WHERE tenant = ?1 AND key = ?2";
        self.0.read(|connection| {
            connection.prepare_cached(sql)?.query_row([tenant, key], |row| row.get(0)).optional()
        })
    }

    /// False if the key has a node already, which stays.
    pub fn choose(&self, tenant: &str, key: &str, node: u16, now_ms: u64) -> Result<bool, StoreError> {
        let sql = "INSERT INTO create_places (tenant, key, node, created_ms) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT DO NOTHING";
        self.0.write(|connection| {
            Ok(connection.prepare_cached(sql)?.execute(params![tenant, key, node, now_ms])? == 1)
        })
    }

    /// False if the node of the key is not `from`.
    pub fn change(&self, tenant: &str, key: &str, from: u16, to: u16) -> Result<bool, StoreError> {
        let sql = "UPDATE create_places SET node = ?4 WHERE tenant = ?1 AND key = ?2 AND node = ?3";
        self.0.write(|connection| {
            Ok(connection.prepare_cached(sql)?.execute(params![tenant, key, from, to])? == 1)
        })
    }

    /// The next create with the key is a new one. It stays where the node is another.
    pub fn forget(&self, tenant: &str, key: &str, node: u16) -> Result<(), StoreError> {
        let sql = "DELETE FROM create_places WHERE tenant = ?1 AND key = ?2 AND node = ?3";
        self.0
            .write(|connection| connection.prepare_cached(sql)?.execute(params![tenant, key, node]).map(drop))
    }

    /// Forgets keys from before that time, and all but the newest `most` of each tenant. Only what is forgotten is looked at while
    /// others wait to write: the count of each tenant is read beside them.
    pub fn prune(&self, before_ms: u64, most: u32) -> Result<usize, StoreError> {
        let old = "DELETE FROM create_places WHERE created_ms < ?1";
        let forgotten = self.0.write(|connection| connection.prepare_cached(old)?.execute([before_ms]))?;
        let counts = "SELECT tenant, count(*) - ?1 FROM create_places GROUP BY tenant HAVING count(*) > ?1";
        let too_many: Vec<(String, u32)> = self.0.read(|connection| {
            connection
                .prepare_cached(counts)?
                .query_map([most], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })?;
        let oldest = "DELETE FROM create_places WHERE tenant = ?1 AND key IN (
                          SELECT key FROM create_places WHERE tenant = ?1 ORDER BY created_ms, key LIMIT ?2
                      )";
        too_many.iter().try_fold(forgotten, |sum, (tenant, count)| {
            self.0.write(|connection| {
                Ok(sum + connection.prepare_cached(oldest)?.execute(params![tenant, count])?)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_node_until_it_is_changed_by_who_knows_it() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let places = store.create_places();
        assert_eq!(places.node_of("a", "k").unwrap(), None);
        assert!(places.choose("a", "k", 3, 10).unwrap() && !places.choose("a", "k", 4, 11).unwrap());
        assert!(places.choose("b", "k", 5, 10).unwrap(), "another tenant's key is another");
        assert!(!places.change("a", "k", 4, 5).unwrap() && places.change("a", "k", 3, 6).unwrap());
        places.forget("a", "k", 3).unwrap();
        drop(store);
        let store = Store::open(state.path()).unwrap();
        assert_eq!(store.create_places().node_of("a", "k").unwrap(), Some(6));
        store.create_places().forget("a", "k", 6).unwrap();
        assert_eq!(store.create_places().node_of("a", "k").unwrap(), None);
        assert_eq!(store.create_places().node_of("b", "k").unwrap(), Some(5));
    }

    #[test]
    fn old_keys_and_too_many_of_one_tenant_are_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let places = store.create_places();
        for at in 0..6 {
            places.choose("many", &format!("k{at}"), 1, at).unwrap();
        }
        places.choose("few", "k", 1, 3).unwrap();
        assert_eq!(places.prune(1, 2).unwrap(), 4);
        let left = |key: &str| places.node_of("many", key).unwrap().is_some();
        assert!(left("k5") && left("k4") && !left("k3") && !left("k0"));
        assert!(places.node_of("few", "k").unwrap().is_some());
    }
}
