# Debian packages, one for each component of the installation:
#
#   cpack --config build/release/CPackConfig.cmake
#
# The library is named after its SONAME, so that two minor versions can be installed side by side. The
# plug-in for MPI is a package of its own, since it needs an MPI.
install(FILES ${PROJECT_SOURCE_DIR}/capi/doc/embedding.md ${PROJECT_SOURCE_DIR}/capi/doc/packages.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/samples/orchestrators
  DESTINATION ${CMAKE_INSTALL_DATADIR}/plait COMPONENT program USE_SOURCE_PERMISSIONS)

# The newest entry of the change log has the version of the packages.
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/debian/changelog newest LIMIT_COUNT 1)
string(REGEX MATCH "^plait \\(([0-9.]+)-([0-9]+)\\)" newest "${newest}")
if(NOT CMAKE_MATCH_1 STREQUAL PROJECT_VERSION)
  message(FATAL_ERROR "cmake/debian/changelog begins with ${CMAKE_MATCH_1}, not with ${PROJECT_VERSION}")
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE ${CMAKE_MATCH_2})
set(PLAIT_DEB_VERSION ${PROJECT_VERSION}-${CMAKE_MATCH_2})
set(PLAIT_DEB_LIBRARY libplait${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME plait)
set(CPACK_PACKAGE_VENDOR "Plait developers")
set(CPACK_PACKAGE_CONTACT "Plait developers <packages@plait.dev>")
set(CPACK_PACKAGE_HOMEPAGE_URL "https://plait.dev/")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
# Packages appear where cpack is called; what it works on stays in the build tree.
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_OUTPUT_FILE_PREFIX .)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/finish.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Dependencies are read from the files; those among these packages are named, with the very version.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})

set(CPACK_COMPONENTS_ALL runtime development program)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${PLAIT_DEB_LIBRARY})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "plait-mpi (= ${PLAIT_DEB_VERSION})")
# What a package depends on whose programs link the library, and that the loader has to hear of it.
file(CONFIGURE OUTPUT debian/shlibs CONTENT "libplait @PROJECT_VERSION_MAJOR@.@PROJECT_VERSION_MINOR@ \
@PLAIT_DEB_LIBRARY@ (>= @PROJECT_VERSION@)\n" @ONLY)
file(CONFIGURE OUTPUT debian/triggers CONTENT "activate-noawait ldconfig\n" @ONLY)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
  ${PROJECT_BINARY_DIR}/debian/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "training of GPT-style Transformers inside a program
Plait is an engine that a program embeds: it hands over batches or token files,
drives training step by step, and reads back metrics, weights and text. It cuts
models over tensor, pipeline and data axes, in threads or in processes.
.
This package holds the shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libplait-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${PLAIT_DEB_LIBRARY} (= ${PLAIT_DEB_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "training of GPT-style Transformers - development files
Plait is an engine that a program embeds, behind a C ABI.
.
This package holds the C header, and what pkg-config and CMake need.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME plait)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${PLAIT_DEB_LIBRARY} (= ${PLAIT_DEB_VERSION})")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "training of GPT-style Transformers from the command line
The program trains, evaluates, generates, and looks into checkpoints, verifies
and converts them, alone or as processes under Slurm, Kubernetes, torchrun,
Open MPI or Ray.
.
Recipes for these are in /usr/share/plait/orchestrators.")

if(TARGET plait_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME plait-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "${PLAIT_DEB_LIBRARY} (= ${PLAIT_DEB_VERSION})")
  set(CPACK_DEBIAN_MPI_DESCRIPTION "training of GPT-style Transformers - MPI transport
Plait is an engine that a program embeds, behind a C ABI.
.
This package holds the plug-in of its library that exchanges data by MPI.")
endif()
include(CPack)
