// NaiveInstance: the slow twin of Instance, written from the rules in instance.h and scheduler.h
// with plain vectors and no state kept between steps beyond what the rules name. It takes single
// steps only and chooses everything anew each time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/policy/bench/naive_pool.h"
#include "runtime/policy/instance.h"

namespace orrery::policy {

class NaiveInstance {
 public:
  struct Item {
    std::uint64_t id;
    std::int64_t first, count;
    bool samples;
    bool operator==(const Item&) const = default;
  };
  struct Live {
    Request request;
    std::int64_t known = 0, computed = 0, rank = 0, admitted_known = 0;
    bool running = false, in_step = false, ended = false, chain_open = false;
    std::vector<BlockHash> hashes;
    std::vector<BlockId> table;
  };

  explicit NaiveInstance(const InstanceSettings& s) : s_(s), pool_(s.kv_blocks) {}

  void submit(const Request& request) {
    Live l;
    l.request = request;
    l.known = request.prompt_tokens.value();
    l.rank = ++ranks_;
    if (s_.prefix_cache) {
      const auto full = static_cast<std::size_t>(l.known / block());
      l.hashes = request.block_hashes;
      if (l.hashes.size() > full) l.hashes.resize(full);
      l.chain_open = l.hashes.size() == full;
    }
    live_[request.id.value] = std::move(l);
    const auto queue = waiting();
    if (queue.front() == request.id.value) front_blocked_ = false;
  }
  void cancel(std::uint64_t id) {
    const auto queue = waiting();
    if (!queue.empty() && queue.front() == id) front_blocked_ = false;
    std::erase(running_, id);
    Live& l = live_.at(id);
    if (l.in_step) {
      l.ended = true;
    } else {
      drop(l);
      live_.erase(id);
    }
  }
  const std::vector<Item>& next_step() {
    items_.clear();
    preempted_ = 0;
    budget_ = s_.max_batched_tokens.value();
    do {
      run_running();
    } while (items_.empty() && !running_.empty());
    if (preempted_ == 0) admit();
    return items_;
  }
  // stops: ids that end with this step (false) or fail (true).
  void complete(const std::map<std::uint64_t, bool>& stops, BlockHasher* hasher) {
    bool all_decode = true;
    for (const Item& item : items_) {
      all_decode = all_decode && item.count == 1 && item.samples;
      Live& l = live_.at(item.id);
      l.in_step = false;
      const auto stop = stops.find(item.id);
      const bool fails = stop != stops.end() && stop->second;
      if (!l.ended && !fails) {
        const std::int64_t before = l.computed / block();
        l.computed += item.count;
        l.known += item.samples;
        for (std::int64_t b = before; b < l.computed / block(); ++b) publish(l, b, hasher);
      }
      const std::int64_t limit = l.request.prompt_tokens.value() + l.request.max_tokens.value();
      if (l.ended || stop != stops.end() || l.known == limit) {
        std::erase(running_, item.id);
        drop(l);
        live_.erase(item.id);
      }
    }
    if (!all_decode) front_blocked_ = false;
  }
  const std::map<std::uint64_t, Live>& live() const { return live_; }
  const NaivePool& pool() const { return pool_; }

 private:
  std::int64_t block() const { return s_.block_tokens.value(); }
  std::int64_t cap(std::int64_t n) const {
    n = std::min(n, budget_);
    return s_.long_prefill_cap.value() > 0 ? std::min(n, s_.long_prefill_cap.value()) : n;
  }
  std::int64_t blocks(std::int64_t tokens) const { return (tokens + block() - 1) / block(); }
  std::vector<std::uint64_t> waiting() const {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, l] : live_)
      if (!l.running && !l.ended) ids.push_back(id);
    const bool by_priority = s_.order == "priority";
    std::sort(ids.begin(), ids.end(), [&](std::uint64_t a, std::uint64_t b) {
      const Live &x = live_.at(a), &y = live_.at(b);
      if (!by_priority) return x.rank < y.rank;
      if (x.request.priority != y.request.priority) return x.request.priority < y.request.priority;
      if (x.request.arrival != y.request.arrival) return x.request.arrival < y.request.arrival;
      return a < b;
    });
    return ids;
  }
  void run_running() {
    for (std::size_t at = 0; at < running_.size() && budget_ > 0;) {
      const std::uint64_t id = running_[at];
      Live& l = live_.at(id);
      const std::int64_t count = cap(l.known - l.computed);
      const std::int64_t size = static_cast<std::int64_t>(l.table.size());
      while (blocks(l.computed + count) - size > pool_.free_count()) {
        const std::size_t v = victim();
        const std::uint64_t chosen = running_[v];
        preempt(chosen);
        if (chosen == id) return;
        if (v < at) --at;
      }
      put(l, id, count);
      ++at;
    }
  }
  std::size_t victim() const {
    if (s_.victim == "newest") return running_.size() - 1;
    std::size_t worst = 0;
    const auto key = [&](std::size_t i) {
      const Request& r = live_.at(running_[i]).request;
      return std::tuple(r.priority, r.arrival, r.id.value);
    };
    for (std::size_t i = 1; i < running_.size(); ++i)
      if (key(i) > key(worst)) worst = i;
    return worst;
  }
  void preempt(std::uint64_t id) {
    Live& l = live_.at(id);
    for (const Item& item : items_)
      if (item.id == id) budget_ += item.count;
    std::erase_if(items_, [&](const Item& i) { return i.id == id; });
    std::erase(running_, id);
    drop(l);
    l.running = l.in_step = false;
    l.computed = 0;
    l.rank = front_rank_--;
    ++preempted_;
  }
  void put(Live& l, std::uint64_t id, std::int64_t count) {
    while (static_cast<std::int64_t>(l.table.size()) < blocks(l.computed + count))
      l.table.push_back(pool_.allocate().first);
    l.in_step = true;
    items_.push_back({id, l.computed, count, l.computed + count == l.known});
    budget_ -= count;
  }
  void admit() {
    while (budget_ > 0 && !front_blocked_ &&
           static_cast<std::int64_t>(running_.size()) < s_.max_running) {
      const auto queue = waiting();
      if (queue.empty()) return;
      Live& l = live_.at(queue.front());
      std::vector<BlockId> hits;
      const auto most = static_cast<std::size_t>((l.known - 1) / block());
      for (std::size_t i = 0; i < std::min(most, l.hashes.size()); ++i) {
        const auto b = pool_.find(l.hashes[i]);
        if (!b) break;
        hits.push_back(*b);
      }
      const auto hit = static_cast<std::int64_t>(hits.size());
      const std::int64_t left = l.known - hit * block();
      std::int64_t need = blocks(l.known) - hit, promised = 0;
      for (const BlockId b : hits) need += pool_.is_free(b);
      for (const std::uint64_t r : running_)
        promised +=
            std::max<std::int64_t>(0, blocks(live_.at(r).admitted_known) -
                                          static_cast<std::int64_t>(live_.at(r).table.size()));
      const std::int64_t kept =
          running_.empty() ? 0 : s_.kv_blocks.value() * s_.watermark_per_mille / 1000;
      const bool waits_for_budget =
          !s_.chunked_prefill && left <= s_.max_batched_tokens.value() && left > budget_;
      if (waits_for_budget || need > pool_.free_count() - promised - kept) {
        front_blocked_ = true;
        return;
      }
      for (const BlockId b : hits) pool_.share(b), l.table.push_back(b);
      l.computed = hit * block();
      l.admitted_known = l.known;
      l.running = true;
      running_.push_back(queue.front());
      put(l, queue.front(), cap(left));
    }
  }
  void publish(Live& l, std::int64_t index, BlockHasher* hasher) {
    const auto i = static_cast<std::size_t>(index);
    if (i >= l.hashes.size()) {
      if (!l.chain_open) return;
      const BlockHash parent = l.hashes.empty() ? BlockHash{} : l.hashes.back();
      const BlockHash h = hasher->hash_block(l.request.id, 0, index, parent);
      l.chain_open = h.value != 0;
      if (!l.chain_open) return;
      l.hashes.push_back(h);
    }
    pool_.publish(l.table[i], l.hashes[i]);
  }
  void drop(Live& l) {
    if (l.table.empty()) return;
    pool_.release(l.table);
    l.table.clear();
    front_blocked_ = false;
  }

  InstanceSettings s_;
  NaivePool pool_;
  std::map<std::uint64_t, Live> live_;
  std::vector<std::uint64_t> running_;
  std::vector<Item> items_;
  std::int64_t budget_ = 0, preempted_ = 0, ranks_ = 0, front_rank_ = 0;
  bool front_blocked_ = false;
};

}  // namespace orrery::policy
