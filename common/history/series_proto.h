#ifndef MUSTER_COMMON_HISTORY_SERIES_PROTO_H_
#define MUSTER_COMMON_HISTORY_SERIES_PROTO_H_

#include "common/history/series.h"

namespace muster {

namespace v1 {
class SeriesPoint;
}  // namespace v1

// Convert a point to and from its message, which may hold anything (see IsSound).
SeriesPoint FromProto(const v1::SeriesPoint& message);
void ToProto(const SeriesPoint& point, v1::SeriesPoint& message);

}  // namespace muster

#endif  // MUSTER_COMMON_HISTORY_SERIES_PROTO_H_
