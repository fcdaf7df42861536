#include "runtime/deploy/state_store.h"

#include <filesystem>
#include <utility>

#include <sqlite3.h>

#include "runtime/base/errors.h"

namespace orrery::deploy {
namespace {

// One prepared statement: bind in order, step, read columns in order.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) : db_(db) {
    if (sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) != SQLITE_OK) fail();
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::int64_t value) {
    return check(sqlite3_bind_int64(statement_, ++bound_, value));
  }
  Statement& bind(double value) { return check(sqlite3_bind_double(statement_, ++bound_, value)); }
  Statement& bind(const std::string& value) {
    return check(sqlite3_bind_text(statement_, ++bound_, value.data(),
                                   static_cast<int>(value.size()), SQLITE_TRANSIENT));
  }
  bool step() {
    column_ = 0;
    const int result = sqlite3_step(statement_);
    if (result != SQLITE_ROW && result != SQLITE_DONE) fail();
    return result == SQLITE_ROW;
  }
  std::int64_t integer() { return sqlite3_column_int64(statement_, column_++); }
  double number() { return sqlite3_column_double(statement_, column_++); }
  std::string text() {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column_));
    const int size = sqlite3_column_bytes(statement_, column_++);
    return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(size));
  }

 private:
  Statement& check(int result) {
    if (result != SQLITE_OK) fail();
    return *this;
  }
  [[noreturn]] void fail() const {
    throw InputError({"state.db", 0, ""}, std::string("\"") + sqlite3_errmsg(db_) + "\"",
                     "a state folder of this version that this user may write");
  }
  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0, column_ = 0;
};

constexpr const char* kSchema[] = {
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "CREATE TABLE IF NOT EXISTS desired(one INTEGER PRIMARY KEY CHECK(one=1), generation INTEGER, "
    "host TEXT, port INTEGER, router TEXT, source TEXT, plan TEXT, stop INTEGER, vllm_metrics "
    "INTEGER)",
    "CREATE TABLE IF NOT EXISTS desired_worker(place INTEGER PRIMARY KEY, slot TEXT UNIQUE, pool "
    "TEXT, model TEXT, instance_type TEXT, settings TEXT, spec TEXT)",
    "CREATE TABLE IF NOT EXISTS fleet(one INTEGER PRIMARY KEY CHECK(one=1), pid INTEGER, host "
    "TEXT, port INTEGER, state TEXT, run_dir TEXT, log TEXT, message TEXT, started_at REAL, "
    "generation INTEGER)",
    "CREATE TABLE IF NOT EXISTS worker(instance INTEGER PRIMARY KEY, slot TEXT, model TEXT, spec "
    "TEXT, pid INTEGER, state TEXT, address TEXT, journal TEXT, log TEXT, message TEXT, "
    "started_at REAL, restarts INTEGER, running INTEGER, waiting INTEGER)",
};

}  // namespace

struct StateStore::Impl {
  sqlite3* db = nullptr;
  ~Impl() { sqlite3_close(db); }
  void run(const char* sql) const { Statement(db, sql).step(); }
};

namespace {

// BEGIN IMMEDIATE … COMMIT, or ROLLBACK when an exception leaves.
class Transaction {
 public:
  explicit Transaction(sqlite3* db) : db_(db) { Statement(db_, "BEGIN IMMEDIATE").step(); }
  ~Transaction() {
    if (!done_) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  void commit() {
    Statement(db_, "COMMIT").step();
    done_ = true;
  }

 private:
  sqlite3* db_;
  bool done_ = false;
};

}  // namespace

StateStore::StateStore(const std::string& state_dir) : impl_(std::make_unique<Impl>()) {
  std::error_code error;
  std::filesystem::create_directories(state_dir, error);
  const std::string path = state_dir + "/state.db";
  if (error || sqlite3_open(path.c_str(), &impl_->db) != SQLITE_OK) {
    throw InputError({path, 0, ""},
                     error ? error.message() : std::string(sqlite3_errmsg(impl_->db)),
                     "a folder this user may write (ORRERY_STATE_DIR chooses another)");
  }
  sqlite3_busy_timeout(impl_->db, 5000);
  for (const char* sql : kSchema) impl_->run(sql);
  // A folder of an earlier version: its table lacks the column.
  Statement column(impl_->db,
                   "SELECT 1 FROM pragma_table_info('desired') WHERE name='vllm_metrics'");
  if (!column.step()) impl_->run("ALTER TABLE desired ADD COLUMN vllm_metrics INTEGER DEFAULT 0");
}
StateStore::~StateStore() = default;

std::int64_t StateStore::generation() const {
  Statement query(impl_->db, "SELECT generation FROM desired");
  return query.step() ? query.integer() : 0;
}

std::optional<Desired> StateStore::desired() const {
  Transaction moment(impl_->db);
  Statement query(impl_->db,
                  "SELECT generation,host,port,router,source,plan,stop,vllm_metrics FROM desired");
  if (!query.step()) return std::nullopt;
  Desired out;
  out.generation = query.integer();
  out.host = query.text();
  out.port = static_cast<int>(query.integer());
  out.router_policy = query.text();
  out.source = query.text();
  out.plan = query.text();
  out.stop = query.integer() != 0;
  out.vllm_metrics = query.integer() != 0;
  Statement rows(impl_->db,
                 "SELECT slot,pool,model,instance_type,settings,spec FROM desired_worker ORDER BY "
                 "place");
  while (rows.step()) {
    DesiredWorker worker;
    worker.slot = rows.text(), worker.pool = rows.text(), worker.model = rows.text();
    worker.instance_type = rows.text(), worker.settings = rows.text(), worker.spec = rows.text();
    out.workers.push_back(std::move(worker));
  }
  return out;
}

std::int64_t StateStore::set_desired(const Desired& desired) {
  Transaction change(impl_->db);
  const std::int64_t next = generation() + 1;
  impl_->run("DELETE FROM desired");
  impl_->run("DELETE FROM desired_worker");
  Statement(impl_->db, "INSERT INTO desired VALUES(1,?,?,?,?,?,?,?,?)")
      .bind(next)
      .bind(desired.host)
      .bind(static_cast<std::int64_t>(desired.port))
      .bind(desired.router_policy)
      .bind(desired.source)
      .bind(desired.plan)
      .bind(static_cast<std::int64_t>(desired.stop))
      .bind(static_cast<std::int64_t>(desired.vllm_metrics))
      .step();
  std::int64_t place = 0;
  for (const DesiredWorker& worker : desired.workers) {
    Statement(impl_->db, "INSERT INTO desired_worker VALUES(?,?,?,?,?,?,?)")
        .bind(place++)
        .bind(worker.slot)
        .bind(worker.pool)
        .bind(worker.model)
        .bind(worker.instance_type)
        .bind(worker.settings)
        .bind(worker.spec)
        .step();
  }
  change.commit();
  return next;
}

void StateStore::request_stop() {
  impl_->run("UPDATE desired SET stop=1, generation=generation+1");
}

std::optional<FleetRow> StateStore::fleet() const {
  Statement query(
      impl_->db, "SELECT pid,host,port,state,run_dir,log,message,started_at,generation FROM fleet");
  if (!query.step()) return std::nullopt;
  FleetRow out;
  out.pid = query.integer(), out.host = query.text();
  out.port = static_cast<int>(query.integer());
  out.state = query.text(), out.run_dir = query.text(), out.log = query.text();
  out.message = query.text(), out.started_at = query.number(), out.generation = query.integer();
  return out;
}

std::vector<ActualWorker> StateStore::workers() const {
  Statement rows(impl_->db,
                 "SELECT instance,slot,model,spec,pid,state,address,journal,log,message,"
                 "started_at,restarts,running,waiting FROM worker ORDER BY slot,instance");
  std::vector<ActualWorker> out;
  while (rows.step()) {
    ActualWorker worker;
    worker.instance = rows.integer(), worker.slot = rows.text(), worker.model = rows.text();
    worker.spec = rows.text(), worker.pid = rows.integer(), worker.state = rows.text();
    worker.address = rows.text(), worker.journal = rows.text(), worker.log = rows.text();
    worker.message = rows.text(), worker.started_at = rows.number();
    worker.restarts = rows.integer(), worker.running = rows.integer();
    worker.waiting = rows.integer();
    out.push_back(std::move(worker));
  }
  return out;
}

void StateStore::set_actual(const FleetRow& fleet, const std::vector<ActualWorker>& workers) {
  Transaction change(impl_->db);
  Statement(impl_->db, "INSERT OR REPLACE INTO fleet VALUES(1,?,?,?,?,?,?,?,?,?)")
      .bind(fleet.pid)
      .bind(fleet.host)
      .bind(static_cast<std::int64_t>(fleet.port))
      .bind(fleet.state)
      .bind(fleet.run_dir)
      .bind(fleet.log)
      .bind(fleet.message)
      .bind(fleet.started_at)
      .bind(fleet.generation)
      .step();
  impl_->run("DELETE FROM worker");
  for (const ActualWorker& worker : workers) {
    Statement(impl_->db, "INSERT INTO worker VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
        .bind(worker.instance)
        .bind(worker.slot)
        .bind(worker.model)
        .bind(worker.spec)
        .bind(worker.pid)
        .bind(worker.state)
        .bind(worker.address)
        .bind(worker.journal)
        .bind(worker.log)
        .bind(worker.message)
        .bind(worker.started_at)
        .bind(worker.restarts)
        .bind(worker.running)
        .bind(worker.waiting)
        .step();
  }
  change.commit();
}

}  // namespace orrery::deploy
