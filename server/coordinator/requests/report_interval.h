#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_REPORT_INTERVAL_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_REPORT_INTERVAL_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Returns the time that each of so many tasks leaves between two reports of its steps. A report
// costs the coordinator the same however many steps it tells of, so all tasks together send a
// thousand in a second: up to 250 tasks report four times a second, 1,000 tasks once. None reports
// less often, since tasks learn from the answers that they must leave a round, and people watch.
absl::Duration ReportInterval(size_t tasks);

// The interval for the tasks that hold slots of the table's jobs. Logic thread only.
class TableReportInterval {
 public:
  // The table outlives it.
  explicit TableReportInterval(const JobTable& jobs) : jobs_(jobs) {}

  // Looks at the slots again only if a record has changed.
  absl::Duration Get();

 private:
  const JobTable& jobs_;
  uint64_t version_ = 0;
  absl::Duration interval_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_REPORT_INTERVAL_H_
