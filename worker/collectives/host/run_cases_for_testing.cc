#include "worker/collectives/host/run_cases_for_testing.h"

#include "absl/strings/str_cat.h"
#include "worker/collectives/communicator.h"

namespace muster {

std::vector<std::string> RunCases(TestGroup& group, const std::vector<CollectiveCase>& cases) {
  Faults faults;
  group.Run([&](Communicator& rank) {
    CaseRunner runner(rank.rank(), rank.size());
    for (const CollectiveCase& c : cases) {
      const absl::Status status = rank.Run(runner.Prepare(c));
      if (!status.ok()) {
        faults.Add(absl::StrCat(c.ToString(), ": ", status.ToString()));
        return;
      }
      faults.Add(runner.Check());
    }
  });
  return faults.Take();
}

}  // namespace muster
