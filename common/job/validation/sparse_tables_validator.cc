#include "common/job/validation/sparse_tables_validator.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Clocks are counted in 32 bits per row.
constexpr uint64_t kMostClocks = uint64_t{1} << 31;

}  // namespace

absl::Status ValidateSparseTables(const v1::JobSpec& spec) {
  const v1::SparseTableOptions& options = spec.sparse_tables();
  const struct {
    absl::string_view field;
    uint64_t value;
    // The value above which the option means something.
    uint64_t idle;
  } fields[] = {{"sparse_tables.cache_bytes", options.cache_bytes(), 0},
                {"sparse_tables.admit_after", options.admit_after(), 1},
                {"sparse_tables.expire_after_clocks", options.expire_after_clocks(), 0},
                {"sparse_tables.keep_from_updates", options.keep_from_updates(), 0}};
  for (const auto& [field, value, idle] : fields) {
    if (value <= idle) continue;
    if (!HasSparseTables(spec)) {
      return Invalid(field, value, "but the model has no sparse tables; leave it out");
    }
    if (TrainsByAllReduce(spec) && !IsHybrid(spec)) {
      return Invalid(field, value,
                     "but update.sparse is ALL_REDUCE, where workers keep rows in memory; "
                     "leave it out, or take update.sparse PARAMETER_SERVER");
    }
  }
  if (options.expire_after_clocks() > kMostClocks) {
    return Invalid("sparse_tables.expire_after_clocks", options.expire_after_clocks(),
                   absl::StrCat("it must be at most ", kMostClocks, " (0: rows never expire)"));
  }
  if (options.keep_from_updates() > 0 && options.expire_after_clocks() == 0) {
    return Invalid("sparse_tables.keep_from_updates", options.keep_from_updates(),
                   "but sparse_tables.expire_after_clocks is 0, so that all rows stay; leave it "
                   "out, or give that one too");
  }
  return absl::OkStatus();
}

}  // namespace muster
