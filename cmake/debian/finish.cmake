# Run by cpack on the staged files of each package, before they are packed: what Debian asks of a
# package and a plain `cmake --install` does not need.
get_filename_component(folder "${CMAKE_CURRENT_LIST_FILE}" DIRECTORY)
find_program(GZIP gzip REQUIRED)

function(compress file)
  execute_process(COMMAND ${GZIP} -9nf "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER "${component}" upper)
  set(name "${CPACK_DEBIAN_${upper}_PACKAGE_NAME}")
  set(share "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share")
  file(COPY "${folder}/copyright" "${folder}/changelog" DESTINATION "${share}/doc/${name}"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(RENAME "${share}/doc/${name}/changelog" "${share}/doc/${name}/changelog.Debian")
  compress("${share}/doc/${name}/changelog.Debian")
  if(EXISTS "${folder}/${name}.lintian-overrides")
    file(COPY "${folder}/${name}.lintian-overrides" DESTINATION "${share}/lintian/overrides"
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    file(RENAME "${share}/lintian/overrides/${name}.lintian-overrides" "${share}/lintian/overrides/${name}")
  endif()
  file(GLOB pages "${share}/man/man*/*[0-9]")
  foreach(page IN LISTS pages)
    compress("${page}")
  endforeach()
endforeach()
