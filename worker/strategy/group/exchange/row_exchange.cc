#include "worker/strategy/group/exchange/row_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/tensor/dtype.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {
namespace {

size_t Total(absl::Span<const size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

}  // namespace

RowExchange::RowExchange(const ShardState& state, const RowExchangeOptions& options)
    : state_(state), options_(options), shards_(state.shard().size(kShardAxes)) {
  for (const SparseTableSpec& table : state.tables().sparse) {
    dims_.push_back(table.dim);
    for (std::vector<RowSum>* sums : {&own_, &owned_, &all_}) sums->emplace_back(table.dim);
  }
}

RowExchange::~RowExchange() { Leave(); }

absl::Status RowExchange::Join(RankGroups& groups) {
  if (dims_.empty()) return absl::OkStatus();
  if (shards_ > 1) {
    Communicator& group = groups.Group(kShardAxes);
    MUSTER_ASSIGN_OR_RETURN(owners_, group.Split(/*colour=*/0, group.rank()));
  }
  replicas_ = groups.Others(kCopyAxes);
  return absl::OkStatus();
}

void RowExchange::Leave() {
  if (asking_ != nullptr) {
    owners_->Abort("a step was given up with a look-up under way");
    // The call's memory is this object's. The error is known to whoever gave the step up.
    WaitForever(*asking_).IgnoreError();
    asking_ = nullptr;
  }
  owners_ = nullptr;
  replicas_ = nullptr;
  counted_ = {};
}

void RowExchange::BeginStep() {
  for (RowSum& rows : own_) rows.Clear();
  if (owners_ != nullptr) counted_ = owners_->traffic();
}

CollectiveTraffic RowExchange::step_traffic() const {
  if (owners_ == nullptr) return {};
  const CollectiveTraffic now = owners_->traffic();
  return Since(counted_, now);
}

void RowExchange::Deal(absl::Span<const absl::Span<const uint64_t>> tables, DealtKeys& dealt) {
  owner_of_.clear();
  dealt.sent.counts.assign(shards_ * tables.size(), 0);
  for (size_t table = 0; table < tables.size(); ++table) {
    for (const uint64_t key : tables[table]) {
      owner_of_.push_back(state_.OwnerOf(key));
      ++dealt.sent.counts[owner_of_.back() * tables.size() + table];
    }
  }
  // The place of the next key of each shard and table.
  std::vector<size_t> next(dealt.sent.counts.size());
  std::exclusive_scan(dealt.sent.counts.begin(), dealt.sent.counts.end(), next.begin(), size_t{0});
  dealt.sent.keys.resize(owner_of_.size());
  dealt.positions.resize(owner_of_.size());
  const uint32_t* owner = owner_of_.data();
  for (size_t table = 0; table < tables.size(); ++table) {
    for (size_t i = 0; i < tables[table].size(); ++i) {
      const size_t to = next[*owner++ * tables.size() + table]++;
      dealt.sent.keys[to] = tables[table][i];
      dealt.positions[to] = static_cast<uint32_t>(i);
    }
  }
}

template <typename Use>
void RowExchange::ForEachRun(const Keys& keys, Use use) const {
  absl::Span<const uint64_t> rest = keys.keys;
  size_t floats = 0;
  for (size_t i = 0; i < keys.counts.size(); ++i) {
    const size_t table = i % dims_.size();
    const absl::Span<const uint64_t> run = rest.first(keys.counts[i]);
    use(table, run, floats);
    rest.remove_prefix(run.size());
    floats += run.size() * dims_[table];
  }
}

std::vector<size_t> RowExchange::Floats(const Keys& keys) const {
  std::vector<size_t> floats(shards_);
  for (size_t i = 0; i < keys.counts.size(); ++i) {
    floats[i / dims_.size()] += keys.counts[i] * dims_[i % dims_.size()];
  }
  return floats;
}

absl::Status RowExchange::Run(Communicator& communicator, const CollectiveCall& call) {
  return options_.wait(*communicator.Start(call));
}

absl::Status RowExchange::ExchangeKeys(const Keys& sent) {
  const auto by_shard = [this](const Keys& keys) {
    std::vector<size_t> counts(shards_);
    for (size_t i = 0; i < keys.counts.size(); ++i) counts[i / dims_.size()] += keys.counts[i];
    return counts;
  };
  return owners().Arrays(sent.keys, by_shard(sent), received_.keys, by_shard(received_),
                         "keys of rows");
}

void RowExchange::AskFor(absl::Span<const SparseRows> tables) {
  if (owners_ == nullptr) return;
  std::vector<absl::Span<const uint64_t>> keys;
  for (const SparseRows& rows : tables) keys.push_back(rows.keys);
  Deal(keys, asked_);
  asking_ = StartCounts(asked_.sent);
}

absl::Status RowExchange::LookUp(absl::Span<SparseRows> tables) {
  for (size_t table = 0; table < dims_.size(); ++table) {
    SparseRows& rows = tables[table];
    rows.rows.resize(rows.keys.size() * dims_[table]);
    if (owners_ == nullptr) state_.LookUp(table, rows.keys, absl::MakeSpan(rows.rows));
  }
  if (owners_ == nullptr) return absl::OkStatus();

  MUSTER_RETURN_IF_ERROR(options_.wait(*std::exchange(asking_, nullptr)));
  MUSTER_RETURN_IF_ERROR(ExchangeKeys(asked_.sent));
  rows_out_.resize(Total(Floats(received_)));
  ForEachRun(received_, [&](size_t table, absl::Span<const uint64_t> keys, size_t floats) {
    state_.LookUp(table, keys,
                  absl::MakeSpan(rows_out_).subspan(floats, keys.size() * dims_[table]));
  });
  MUSTER_RETURN_IF_ERROR(ExchangeRows(received_, asked_.sent, "rows"));
  const uint32_t* position = asked_.positions.data();
  ForEachRun(asked_.sent, [&](size_t table, absl::Span<const uint64_t> keys, size_t floats) {
    const float* from = rows_in_.data() + floats;
    for (size_t i = 0; i < keys.size(); ++i, from += dims_[table]) {
      std::copy_n(from, dims_[table], &tables[table].rows[*position++ * dims_[table]]);
    }
  });
  return absl::OkStatus();
}

void RowExchange::Add(absl::Span<const SparseRows> tables) {
  for (size_t table = 0; table < dims_.size(); ++table) {
    own_[table].Add(tables[table].keys, tables[table].gradients);
  }
}

absl::Status RowExchange::SendToOwners() {
  if (owners_ == nullptr) return absl::OkStatus();
  std::vector<absl::Span<const uint64_t>> own_keys;
  for (const RowSum& rows : own_) own_keys.push_back(rows.keys());
  Deal(own_keys, pushed_);
  MUSTER_RETURN_IF_ERROR(options_.wait(*StartCounts(pushed_.sent)));
  MUSTER_RETURN_IF_ERROR(ExchangeKeys(pushed_.sent));
  rows_out_.resize(Total(Floats(pushed_.sent)));
  const uint32_t* position = pushed_.positions.data();
  ForEachRun(pushed_.sent, [&](size_t table, absl::Span<const uint64_t> keys, size_t floats) {
    float* to = rows_out_.data() + floats;
    for (size_t i = 0; i < keys.size(); ++i, to += dims_[table]) {
      std::copy_n(&own_[table].sums()[*position++ * dims_[table]], dims_[table], to);
    }
  });
  MUSTER_RETURN_IF_ERROR(ExchangeRows(pushed_.sent, received_, "gradients of rows"));
  for (RowSum& rows : owned_) rows.Clear();
  // Rank after rank, as they lie here.
  ForEachRun(received_, [&](size_t table, absl::Span<const uint64_t> keys, size_t floats) {
    owned_[table].Add(keys,
                      absl::MakeConstSpan(rows_in_).subspan(floats, keys.size() * dims_[table]));
  });
  return absl::OkStatus();
}

absl::Status RowExchange::AddReplicas() {
  const std::vector<RowSum>& mine = owners_ == nullptr ? own_ : owned_;
  sums_ = mine;
  if (replicas_ == nullptr) return absl::OkStatus();
  const size_t ranks = replicas_->size();
  std::vector<int64_t> numbers;
  for (const RowSum& rows : mine) numbers.push_back(static_cast<int64_t>(rows.keys().size()));
  std::vector<int64_t> all_numbers(ranks * mine.size());
  MUSTER_RETURN_IF_ERROR(Run(*replicas_, AllGather(absl::MakeConstSpan(numbers), all_numbers.data(),
                                                   options_.timeout, "numbers of rows")));
  for (size_t table = 0; table < mine.size(); ++table) {
    std::vector<size_t> counts;
    for (size_t rank = 0; rank < ranks; ++rank) {
      counts.push_back(all_numbers[rank * mine.size() + table]);
    }
    MUSTER_RETURN_IF_ERROR(GatherTable(counts, mine[table], all_[table]));
  }
  sums_ = all_;
  return absl::OkStatus();
}

absl::Status RowExchange::GatherTable(absl::Span<const size_t> counts, const RowSum& mine,
                                      RowSum& sum) {
  sum.Clear();
  const size_t total = Total(counts);
  if (total == 0) return absl::OkStatus();
  received_.keys.resize(total);
  CollectiveCall gather =
      AllGather<uint64_t>(mine.keys(), received_.keys.data(), options_.timeout, "keys of rows");
  gather.counts = counts;
  MUSTER_RETURN_IF_ERROR(Run(*replicas_, gather));

  std::vector<size_t> floats;
  for (const size_t count : counts) floats.push_back(count * mine.dim());
  rows_in_.resize(total * mine.dim());
  gather = AllGather<float>(mine.sums(), rows_in_.data(), options_.timeout, "gradients of rows");
  gather.counts = floats;
  MUSTER_RETURN_IF_ERROR(Run(*replicas_, gather));
  // Rank after rank, as they lie here.
  sum.Add(received_.keys, rows_in_);
  return absl::OkStatus();
}

}  // namespace muster
