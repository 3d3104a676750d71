#include "kernels.hpp"

#include <stdexcept>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Best first; CMakeLists.txt compiles the tables of the same names.
#if defined(__x86_64__)
#define ZO_ISAS(X) X(amx) X(avx512vnni) X(avx512) X(avxvnni) X(avx2) X(baseline)
#elif defined(__aarch64__)
#define ZO_ISAS(X) X(dotprod) X(baseline)
#else
#define ZO_ISAS(X) X(baseline)
#endif

namespace zo {

#define ZO_DECLARE(isa)          \
    namespace isa {              \
    extern const Kernels kTable; \
    }
ZO_ISAS(ZO_DECLARE)

namespace {

#if defined(__x86_64__)
/// Whether the processor has tiles of int8, and Linux gives them to processes that ask.
bool has_tiles() {
#if defined(__linux__)
    constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;  // cpuid, leaf 7
    constexpr int kSupported = 0x1021, kTileData = 18;      // arch_prctl
    unsigned a, b, c, features;
    unsigned long states = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &features) && features & kTile && features & kInt8 &&
           syscall(SYS_arch_prctl, kSupported, &states) == 0 && states >> kTileData & 1;
#else
    return false;
#endif
}
#endif

/// Whether the process may use the kernels. Those with tiles must be asked for: from then on Linux
/// refuses signal stacks that are too small for them.
bool permitted([[maybe_unused]] const Kernels& table) {
#if defined(__x86_64__) && defined(__linux__)
    constexpr int kRequestPermission = 0x1023, kTileData = 18;
    return &table != &amx::kTable || syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return true;
#endif
}

bool runs(const std::string& name) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    // of x86-64-v3 and v4, for which CMakeLists.txt compiles
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
    if (name == "avx2") return avx2;
    if (name == "avxvnni") return avx2 && __builtin_cpu_supports("avxvnni");
    if (name == "avx512") return avx512;
    const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
    if (name == "avx512vnni") return vnni;
    if (name == "amx") return vnni && has_tiles();
#elif defined(__aarch64__) && defined(__linux__)
    if (name == "dotprod") return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#endif
    return name == "baseline";
}

const std::vector<const Kernels*>& available() {
    static const std::vector<const Kernels*> tables = [] {
        std::vector<const Kernels*> found;
#define ZO_ADD(isa) \
    if (runs(#isa)) found.push_back(&isa::kTable);
        ZO_ISAS(ZO_ADD)
        return found;
    }();
    return tables;
}

}  // namespace

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels* table : available()) names.push_back(table->name);
    return names;
}

const Kernels& kernels(const std::string& name, bool tiles) {
    std::string names;
    for (const Kernels* table : available()) {
        if (name == "auto" || table->name == name) {
            if (!tiles || permitted(*table)) return *table;
            if (name != "auto")
                throw std::invalid_argument("instruction set " + name +
                                            ": the system does not let this process use its "
                                            "tiles, as with a small signal stack; take auto");
        }
        names += std::string(", ") + table->name;
    }
    throw std::invalid_argument("instruction set " + name + ": this machine has auto" + names);
}

}  // namespace zo
