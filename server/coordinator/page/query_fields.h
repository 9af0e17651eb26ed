#ifndef MUSTER_SERVER_COORDINATOR_PAGE_QUERY_FIELDS_H_
#define MUSTER_SERVER_COORDINATOR_PAGE_QUERY_FIELDS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/page/request_target.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Sets a request's fields from a query, by the names that they have in JSON. A list takes one value
// for each time that it is named, and a map of strings KEY=VALUE. Fields in `kept` are not the
// query's to set. InvalidArgument: there is no such field, its value is of another type, it is
// given twice, or it is beyond its limit (request_limits.h).
absl::Status SetFields(const QueryFields& query, absl::Span<const absl::string_view> kept,
                       google::protobuf::Message& request);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_PAGE_QUERY_FIELDS_H_
