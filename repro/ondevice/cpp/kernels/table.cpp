// The table of kernels of one instruction set.
#include "gaussian.hpp"
#include "gradient.hpp"
#include "lattice.hpp"
#include "narrow.hpp"
#include "norm.hpp"
#include "outer.hpp"
#include "peak.hpp"
#include "planes.hpp"
#include "point_tiles.hpp"
#include "products.hpp"
#include "signs.hpp"
#include "sparse_noise.hpp"
#include "tiles.hpp"
#include "transpose.hpp"

#define ZO_TEXT_OF(x) #x
#define ZO_TEXT(x) ZO_TEXT_OF(x)

namespace zo::ZO_ISA {

extern const Kernels kTable;
const Kernels kTable = {
    .name = ZO_TEXT(ZO_ISA),
    .unsigned_inputs = kUnsigned,
    .tiles = kTiles,
    .products_chunk = 4 * L,
    .windows_f32 = windows_f32,
    .windows_i8 = windows_i8,
    .products_f32 = products_f32,
    .products_i8 = products_i8,
    .outer_f32 = outer_f32,
    .outer_i8 = outer_i8,
    .planes_i8 = planes_i8,
    .dot_i8 = dot_i8,
    .add_i8 = add_i8,
    .route_i8 = route_i8,
    .largest_i32 = largest<std::int32_t>,
    .largest_i64 = largest<std::int64_t>,
    .round_i32 = round<std::int32_t>,
    .round_i64 = round<std::int64_t>,
    .narrow = narrow,
    .pack = pack,
    .pool_f32 = pool_f32,
    .moments_f32 = moments_f32,
    .error_moments_f32 = error_moments_f32,
    .mix_f32 = mix_f32,
    .gather_f32 = gather_f32,
    .row_moments_f32 = row_moments_f32,
    .row_maxima_f32 = row_maxima_f32,
    .row_error_moments_f32 = row_error_moments_f32,
    .gather_errors_f32 = gather_errors_f32,
    .transpose_i8 = transpose_i8,
    .transpose_f32 = transpose_f32,
    .interleave = interleave,
    .noise_i8 = noise_i8,
    .move_i8 = move_i8,
    .descend_i8 = descend_i8,
    .gaussian_f32 = gaussian_f32,
    .signs_f32 = signs_f32,
    .product_f32 = product_f32,
    .move_f32 = move_f32,
    .halves = {{move_half<Bfloat16>, move_half_by_signs<Bfloat16>, lattice_pass<Bfloat16>,
                lattice_pass_by_signs<Bfloat16>},
               {move_half<Float16>, move_half_by_signs<Float16>, lattice_pass<Float16>,
                lattice_pass_by_signs<Float16>}},
    .peak_f32 = peak_f32,
    .peak_i8 = peak_i8,
};

}  // namespace zo::ZO_ISA
